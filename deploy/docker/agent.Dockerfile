# The agent, without a JVM. From the root of the repository:
#   docker build -f deploy/docker/agent.Dockerfile -t kafka-rebalance-agent .
# It runs as 12472, needs no writable root, and keeps its state in /var/lib/kafka-rebalance-agent.
ARG PYTHON=docker.io/library/python:3.13-slim-bookworm

FROM ${PYTHON} AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1
COPY deploy/docker/build.lock deploy/docker/agent.lock ./
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes -r build.lock \
    && /opt/build/bin/pip wheel --no-cache-dir --require-hashes --no-deps --no-build-isolation \
        --wheel-dir /wheels -r agent.lock
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
