"""What the command bar finds: its entries, how they match, how often they were used, and own commands."""
