# The image of kross, for builds with a container daemon: docker build --tag kross .
# `cargo xtask image` writes the same image without one.
FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY . .
# glibc and not musl: the allocator of musl slows down a controller with many threads.
RUN cargo rustc --package kross --bin kross --locked --release -- -C target-feature=+crt-static \
    && mkdir -p /root-of-image/etc/ssl/certs /root-of-image/licenses \
    && install -m 0755 target/release/kross /root-of-image/kross \
    && install -m 0644 LICENSE /root-of-image/licenses/LICENSE \
    && install -d -m 1777 /root-of-image/tmp \
    && printf 'root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n' > /root-of-image/etc/passwd \
    && printf 'root:x:0:\nnonroot:x:65532:\n' > /root-of-image/etc/group \
    && printf 'hosts: files dns\n' > /root-of-image/etc/nsswitch.conf

FROM scratch
COPY --from=build /root-of-image /
USER 65532:65532
WORKDIR /
EXPOSE 8078 8079
ENTRYPOINT ["/kross"]
