"""Native agents: one module or package per format, all behind `base.Agent`."""
