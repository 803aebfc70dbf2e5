"""models/timm"""
