"""Kitebase's ticket service."""
