"""Trainings with one planted fault each, and healthy ones: does the monitor name the culprit?"""
