# The sidecar as an image, with every extra, the gate clients and the webhook: wheels built from the tree, dependencies
# by hash from the lock, run as a plain user. A layer with your own plugins: examples/plugin-image/Dockerfile.
#
#   docker build -t dispatch-sidecar .
#   docker run -v ./sidecar.toml:/etc/sidecar/sidecar.toml:ro dispatch-sidecar
#
# BASE needs python 3.11 or newer with venv, nothing else; both stages use it, so that the environment fits.

ARG BASE=python:3.13-slim-bookworm

FROM ${BASE} AS built
WORKDIR /src
COPY requirements/image.txt requirements/
RUN python3 -m venv /build \
    && /build/bin/python -m pip download -q --require-hashes --only-binary :all: -r requirements/image.txt -d /wheels \
    && /build/bin/python -m pip install -q --no-index --find-links /wheels hatchling
COPY pyproject.toml README.md LICENSE ./
COPY proto/python proto/python
COPY plugins/audit_webhook plugins/audit_webhook
COPY plugins/gates_http plugins/gates_http
COPY plugins/gates_manifest plugins/gates_manifest
COPY sidecar sidecar
# From here on nothing is fetched: what the lock's hashes admitted lies in /wheels, and only what the sidecar asks for
# is taken out of it.
RUN /build/bin/python -m pip wheel -q --no-index --no-build-isolation --no-deps -w /wheels \
        . ./proto/python ./plugins/audit_webhook ./plugins/gates_http ./plugins/gates_manifest \
    && python3 -m venv --without-pip /opt/sidecar \
    && /build/bin/python -m pip --python /opt/sidecar/bin/python install -q --no-index --find-links /wheels \
        'dispatch-sidecar[all]' sidecar-audit-webhook sidecar-gates-http sidecar-gates-manifest \
    && /opt/sidecar/bin/python -m compileall -q /opt/sidecar/lib

FROM ${BASE}
RUN useradd --uid 10001 --user-group --home-dir /var/lib/sidecar --create-home --shell /usr/sbin/nologin sidecar \
    && install -d -m 0755 /etc/sidecar \
    && install -d -m 0700 -o sidecar -g sidecar /run/sidecar
COPY --from=built /opt/sidecar /opt/sidecar
COPY LICENSE /usr/share/doc/dispatch-sidecar/LICENSE
ENV PATH=/opt/sidecar/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /var/lib/sidecar
ENTRYPOINT ["sidecar"]
CMD ["serve", "--config", "/etc/sidecar/sidecar.toml"]
HEALTHCHECK --interval=5s --timeout=2s --start-period=10s CMD ["sidecar", "health", "--config", "/etc/sidecar/sidecar.toml"]
STOPSIGNAL SIGTERM
