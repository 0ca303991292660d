#!/usr/bin/env bash
# scripts/spark-score.py on PySpark in local mode, against `linelens score` alone. PySpark is installed into .tools/spark-env.
set -euo pipefail
cd "$(dirname "$0")/.."

# Where Java or PySpark cannot be had, the other checks still mean something; on CI they must be there.
skip() {
    echo "Spark test skipped: $1"
    if [ "${CI:-}" = true ]; then
        exit 1
    fi
    exit 0
}

java_works() {
    java -version > /dev/null 2>&1
}
if ! java_works && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    { apt-get update && apt-get install -y --no-install-recommends default-jre-headless; } > /dev/null 2>&1 || true
fi
java_works || skip "there is no Java (on Debian and Ubuntu: apt-get install default-jre-headless)"

env=.tools/spark-env
if [ ! "$env/.stamp" -nt scripts/requirements-spark.txt ]; then
    # A wheel of Spark is half a gigabyte, so nothing is built but in here, and nothing is kept beside it.
    rm -rf "$env"
    mkdir -p .tools
    python3 -m venv "$env" || skip "Python's venv module is missing"
    pip() {
        "$env/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-cache-dir "$@"
    }
    grep -A1 -E '^(setuptools|wheel)==' scripts/requirements-spark.txt | grep -v '^--$' > "$env/build.txt"
    pip --only-binary :all: --require-hashes -r "$env/build.txt" || skip "PySpark's build tools could not be installed"
    pip --no-build-isolation --require-hashes -r scripts/requirements-spark.txt \
        || skip "PySpark could not be installed"
    touch "$env/.stamp"
fi

CARGO_TARGET_DIR=target cargo test --locked --quiet --no-run --test tidy
export LINELENS=$PWD/target/debug/linelens

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CONFIG_HOME=$scratch/config SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_HOSTNAME=localhost
for n in $(seq 1 40); do
    printf '{"id": %d, "func": "int f%d(char *to, const char *from)\\n{\\n\\tstrcpy(to, from);\\n\\treturn %d;\\n}"}\n' "$n" "$n" "$n"
done > "$scratch/rows.jsonl"
echo 'not a row' >> "$scratch/rows.jsonl"

"$LINELENS" score --threads 1 < "$scratch/rows.jsonl" > "$scratch/alone.jsonl" 2> /dev/null || [ $? -eq 1 ]
PATH=$PWD/$env/bin:$PATH PYSPARK_PYTHON=$PWD/$env/bin/python "$env/bin/spark-submit" --master 'local[2]' --conf spark.ui.enabled=false --conf spark.log.level=ERROR \
    --conf spark.sql.warehouse.dir="$scratch/warehouse" --driver-memory 512m \
    scripts/spark-score.py "$scratch/rows.jsonl" "$scratch/out" > "$scratch/log" 2>&1 \
    || { cat "$scratch/log"; exit 1; }
cat "$scratch"/out/part-* > "$scratch/piped.jsonl"
# A row's number is that of its partition, so it differs.
same='import json, sys
rows = [[{k: v for k, v in json.loads(line).items() if k != "row"} for line in open(path)] for path in sys.argv[1:]]
sys.exit(0 if rows[0] == rows[1] and len(rows[0]) == 41 else f"Spark and linelens alone differ: {rows}")'
"$env/bin/python" -c "$same" "$scratch/alone.jsonl" "$scratch/piped.jsonl"
ls "$scratch"/out/part-* | wc -l | xargs printf 'Spark: 41 rows through %d processes, the same as alone\n'
