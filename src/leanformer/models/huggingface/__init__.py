"""models/huggingface"""
