"""Scores a data set of JSON Lines on Spark: each partition is piped through one `linelens score`.

    spark-submit scripts/spark-score.py INPUT OUTPUT [ARGUMENT…]

INPUT holds rows with `func` and, if they are to be known again, `id`; OUTPUT is a new folder of result rows, in the order
of the input. Further arguments go to `linelens score`, for example `--threshold 0.6` or `--dry-run`. LINELENS names the
program where it is not on the workers' PATH. A row that has no score has an `error` in its result.
"""

import os
import shlex
import sys

from pyspark.sql import SparkSession


def main(source, target, *arguments):
    spark = SparkSession.builder.appName("linelens score").getOrCreate()
    # One thread a process: Spark runs one process a core. Rows that fail make the exit code 1, which is no failure of
    # the partition; 2 is one.
    score = [os.environ.get("LINELENS", "linelens"), "score", "--threads", "1", *arguments]
    command = ["bash", "-c", shlex.join(score) + "; code=$?; [ $code -eq 1 ] || exit $code"]
    rows = spark.sparkContext.textFile(source)
    rows.pipe(shlex.join(command), env=dict(os.environ), checkCode=True).saveAsTextFile(target)
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
