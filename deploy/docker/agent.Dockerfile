# The agent, without a JVM. From the root of the repository:
#   docker build -f deploy/docker/agent.Dockerfile -t kafka-rebalance-agent .
# It runs as 12472, needs no writable root, and keeps its state in /var/lib/kafka-rebalance-agent.
ARG PYTHON=docker.io/library/python:3.13-slim-bookworm

FROM ${PYTHON} AS build
ARG EXTRAS=wire,kafka,otel
WORKDIR /src
COPY pyproject.toml README.md ./
COPY agent agent
COPY aggregation aggregation
COPY kafka_rebalance_agent kafka_rebalance_agent
COPY metrics metrics
COPY docs/man docs/man
RUN python -m venv /opt/agent \
    && /opt/agent/bin/pip install --no-cache-dir --disable-pip-version-check ".[${EXTRAS}]" \
    && /opt/agent/bin/pip uninstall --yes --quiet pip \
    && install -d -o 12472 -g 12472 -m 0750 /state/kafka-rebalance-agent

FROM ${PYTHON}
LABEL org.opencontainers.image.title="kafka-rebalance-agent" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/agent /opt/agent
COPY --from=build /state /var/lib
ENV PATH=/opt/agent/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    XDG_STATE_HOME=/var/lib
USER 12472:12472
WORKDIR /var/lib/kafka-rebalance-agent
VOLUME /var/lib/kafka-rebalance-agent
EXPOSE 12472
ENTRYPOINT ["rebalance-agent"]
CMD ["run", "--config.file", "/etc/kafka-rebalance-agent/agent.yaml"]
