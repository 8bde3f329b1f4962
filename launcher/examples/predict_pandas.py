"""A table through a Pandas UDF, for what is no model of a framework.

rankdeck predict launcher/examples/predict_pandas.py:shout --input words.csv --output shouted.csv \
    --input-option header=true --columns word
"""

import pandas as pd
from pyspark.sql.functions import pandas_udf  # type: ignore[attr-defined]


@pandas_udf("string")
def shout(words: pd.Series) -> pd.Series:
    """Each word in capitals."""
    return words.str.upper()
