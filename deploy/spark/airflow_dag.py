"""A DAG for Airflow 3: ingest and report every night, with a history of reports.

Put the file into the DAGs' folder. The commands run where ``rebalance-agent`` is installed with its
extra ``spark``. The variables are Airflow's, by `airflow variables set rebalance_spool PATH`.
Reports of earlier nights stay; ``index.html`` lists them all. The last task fails, and by that
notifies, if something became worse in the week. With objectives, add ``--slo FILE --fail-if
slo_missed``.
"""  # noqa: INP001 - a script

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

SPOOL = "{{ var.value.rebalance_spool }}"
TABLES = "{{ var.value.rebalance_tables }}"
REPORTS = "{{ var.value.rebalance_reports }}"

with DAG(
    dag_id="kafka_rebalances",
    schedule="10 2 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
) as dag:
    ingest = BashOperator(
        task_id="ingest",
        bash_command=f"rebalance-agent ingest --from '{SPOOL}' --tables '{TABLES}' --once",
    )
    report = BashOperator(
        task_id="report",
        retries=0,
        bash_command=f"rebalance-agent report --tables '{TABLES}' --output '{REPORTS}'"
        " --days 7 --dated --fail-if worse",
    )
    ingest >> report
