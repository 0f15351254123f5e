# Spark's jobs, `ingest` and `report`; pip brings PySpark and a JDK. From the root of the repository:
#   docker build -f deploy/docker/spark.Dockerfile -t kafka-rebalance-agent-spark .
# It runs as 12472; of its root only /tmp is written, which must allow programs (`--tmpfs /tmp:exec`).
ARG PYTHON=docker.io/library/python:3.13-slim-bookworm

FROM ${PYTHON} AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1
COPY deploy/docker/build.lock deploy/docker/spark.lock ./
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes -r build.lock \
    && /opt/build/bin/pip wheel --no-cache-dir --require-hashes --no-deps --no-build-isolation \
        --wheel-dir /wheels -r spark.lock
COPY pyproject.toml README.md LICENSE ./
COPY agent agent
COPY aggregation aggregation
COPY docs/man docs/man
COPY kafka_rebalance_agent kafka_rebalance_agent
COPY metrics metrics
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && python -m venv --without-pip /opt/agent \
    && /opt/build/bin/pip --python /opt/agent/bin/python install --no-cache-dir --no-index --no-deps \
        /wheels/*.whl \
    && install -d -o 12472 -g 12472 -m 0750 /data/kafka-rebalance-tables /data/kafka-rebalance-reports

FROM ${PYTHON}
LABEL org.opencontainers.image.title="kafka-rebalance-agent-spark" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/agent /opt/agent
COPY --from=build /data /var/lib
# Hadoop asks the system for the user's name, and writes its scratch below HOME
RUN useradd --uid 12472 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin agent
ENV PATH=/opt/agent/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp
USER 12472:12472
WORKDIR /tmp
ENTRYPOINT ["rebalance-agent"]
CMD ["--help"]
