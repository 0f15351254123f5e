#!/usr/bin/env bash
# Runs `ingest` or `report` on a cluster:
#
#   MASTER=spark://master:7077 deploy/spark/spark-submit.sh ingest --from DIR --tables DIR --once
#   MASTER=yarn FORMAT=delta KAFKA=1 WHEEL=dist/kafka_rebalance_agent-0.1.0-py3-none-any.whl \
#     deploy/spark/spark-submit.sh ingest --from kafka://broker:9092/samples --tables DIR \
#     --table-format delta
#   ... deploy/spark/spark-submit.sh report --tables DIR --output DIR
#
# Spark 4.1. DIR must be the same folder for driver and executors. Their Python (PYSPARK_PYTHON) needs
# what the extra [spark] brings; WHEEL sends this program's own code, as a .zip beside it, for workers
# import nothing from a .whl. FORMAT, KAFKA and S3 let Spark's Ivy
# fetch the jars (spark.jars.ivySettings names a mirror); more for spark-submit goes into SUBMIT_OPTIONS.
# Spark's default of 200 shuffle partitions makes 200 tasks of most steps: on few cores add
# SUBMIT_OPTIONS='--conf spark.sql.shuffle.partitions=N', with about two for each core.
# With `ingest --stored-in s3a://BUCKET/PATH` (S3=1) or a catalog's namespace, DIR of --tables is the driver's alone.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"

packages=()
[ -z "${KAFKA:-}" ] || packages+=(org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3)
[ -z "${S3:-}" ] || packages+=(org.apache.hadoop:hadoop-aws:3.4.2)
case "${FORMAT:-parquet}" in
  parquet) ;;
  delta) packages+=(io.delta:delta-spark_4.1_2.13:4.4.0) ;;
  iceberg) packages+=(org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0) ;;
  *) echo "FORMAT=$FORMAT: wanted parquet, delta or iceberg" >&2; exit 2 ;;
esac

options=(--name "rebalance-agent ${1:-}")
[ -z "${MASTER:-}" ] || options+=(--master "$MASTER")
if [ -n "${WHEEL:-}" ]; then
  cp "$WHEEL" "${WHEEL%.whl}.zip"
  options+=(--py-files "${WHEEL%.whl}.zip")
fi
[ "${#packages[@]}" = 0 ] || options+=(--packages "$(IFS=,; echo "${packages[*]}")")
# shellcheck disable=SC2206 - several words are wanted
options+=(${SUBMIT_OPTIONS:-})

exec "${SPARK_SUBMIT:-spark-submit}" "${options[@]}" "$here/rebalance_agent_spark.py" "$@"
