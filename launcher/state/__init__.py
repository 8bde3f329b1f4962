"""What happened: facts, the state that they fold into, and the rules that decide over it. Pure."""
