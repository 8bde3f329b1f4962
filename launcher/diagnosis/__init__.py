"""Why a run failed: pure rules, which name a cause only where what was recorded shows it."""
