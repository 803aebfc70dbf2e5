"""designing"""
