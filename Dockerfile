# Builds the program as one static file and puts it alone into an image that runs without privileges.
FROM rust:1.95-slim-bookworm AS build
# `release`, or another profile of Cargo.
ARG PROFILE=release
WORKDIR /src
COPY . .
# A target of its own keeps the static linking away from build scripts and macros.
RUN target="$(rustc -vV | sed -n 's/^host: //p')" \
 && RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --bin tidemark --profile "$PROFILE" --target "$target" \
 && mkdir -p /image/data \
 && cp "target/$target"/*/tidemark /image/tidemark

FROM scratch
COPY --from=build --chown=65532:65532 /image/ /
USER 65532:65532
ENV TIDEMARK_DATA=/data TIDEMARK_WORKLOAD=0.0.0.0:8000
VOLUME /data
EXPOSE 8000 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
  CMD ["/tidemark", "run", "curl", "-f", "-s", "-o", "/dev/null", "-m", "2", "http://127.0.0.1:8000/health-check"]
ENTRYPOINT ["/tidemark"]
CMD ["serve"]
