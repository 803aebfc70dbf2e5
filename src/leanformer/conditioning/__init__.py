"""How well conditioned attention is: spectra of matrices, Gaussian theory, probes, tracking and measurements."""

from leanformer.conditioning.spectra import Conditioning, condition_number, conditioning

__all__ = ["Conditioning", "condition_number", "conditioning"]
