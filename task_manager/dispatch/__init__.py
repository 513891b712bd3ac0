"""Dispatch: carries launches, stops and images to fetch to the Workers."""
