"""Run compiled agents: turns, flow, memory and control."""
