//! Every way a tool can move away from its pin.
