"""models/own"""
