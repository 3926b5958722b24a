# Builds the program and puts it alone into a small image that runs without privileges.
FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cargo build --release --locked && mkdir -p /data

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/release/tidemark /tidemark
COPY --from=build --chown=65532:65532 /data /data
USER 65532:65532
ENV TIDEMARK_DATA=/data TIDEMARK_WORKLOAD=0.0.0.0:8000
VOLUME /data
EXPOSE 8000
ENTRYPOINT ["/tidemark"]
CMD ["serve"]
