#!/usr/bin/env bash
# build-image.sh IMAGE [TAG]
#
# Makes a local stand-in for an official Redis or Valkey image out of Debian's
# packages, for machines that have a Docker engine but reach no image registry.
# It needs root, a Debian host with apt, and the docker command. Nothing is
# installed on the host.
#
#   IMAGE  what is to be replaced, e.g. redis:7.0, redis:8.0, valkey/valkey:8.1
#   TAG    how the result is called; default localhost/redistest/IMAGE, a name of
#          its own, so that it is never taken for the official image
set -euo pipefail

fail() { echo "build-image.sh: $*" >&2; exit 1; }

image=${1:?usage: build-image.sh IMAGE [TAG]}
tag=${2:-localhost/redistest/$image}

# The Debian release that carries the server, oldest suite first: the last one named is preferred.
case $image in
  redis:6.0*) package=redis-server suites=(bullseye) ;;
  redis:7 | redis:7-* | redis:7.0*) package=redis-server suites=(bookworm) ;;
  redis:8 | redis:8-* | redis:8.0*) package=redis-server suites=(trixie) ;;
  valkey/valkey:8.0*) package=valkey-server suites=(bookworm bookworm-backports) ;;
  valkey/valkey:8 | valkey/valkey:8-* | valkey/valkey:8.1*) package=valkey-server suites=(trixie) ;;
  *) fail "no Debian release is known to carry $image" ;;
esac
flavour=${package%-server}

[ "$(id -u)" = 0 ] || fail "must run as root"
for tool in docker apt-get dpkg-deb tar; do
  command -v "$tool" >/dev/null || fail "$tool is missing: a Debian host with a Docker engine is needed"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

# An apt world of its own: the host's package lists, cache and state stay as they are.
prepare_apt() {
  mkdir -p "$work"/{lists,cache/archives}/partial
  : >"$work/status"
  # Where the host gets its packages from, as apt itself tells it (works also with empty lists).
  local archive
  archive=$(apt-get --print-uris update | sed -n "s|^'\(.*/debian/\)dists/[^/]*/InRelease'.*|\1|p" | head -n 1)
  [ -n "$archive" ] || fail "apt knows no Debian archive"
  local suite
  for suite in "${suites[@]}"; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $suite main"
  done >"$work/sources"
  cat >"$work/apt.conf" <<CONF
Dir::Etc::sourcelist "$work/sources";
Dir::Etc::sourceparts "-";
Dir::State::lists "$work/lists";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
APT::Sandbox::User "root";
CONF
}

download() {
  APT_CONFIG=$work/apt.conf apt-get -qq update
  APT_CONFIG=$work/apt.conf apt-get -qq -y --no-install-recommends --download-only \
    -t "${suites[-1]}" install "$package" busybox-static >/dev/null
}

# Unpacks the server, its tools and every shared library; the rest of the
# dependencies (adduser, perl, PAM) only serves the packages' install scripts.
unpack() {
  local dir deb
  mkdir -p "$root"/{data,dev,etc,proc,run,sys,usr/local/bin}
  install -d -m 1777 "$root/tmp"
  for dir in bin sbin lib lib64; do # one tree, as all these releases have it
    mkdir -p "$root/usr/$dir"
    ln -s "usr/$dir" "$root/$dir"
  done
  for deb in "$work"/cache/archives/{"$flavour"-*,lib*,zlib*,busybox-static*}.deb; do
    case ${deb##*/} in libpam* | libdb5* | libsystemd-shared*) continue ;; esac
    dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$root" \
      --exclude './usr/share' --exclude './etc' --exclude './var' --exclude '*/gconv/*'
  done
}

furnish() {
  local applet
  # What the entry point, health checks and `docker exec` use.
  for applet in awk cat env grep id kill ls nc ps rm sh sleep; do ln -sf busybox "$root/usr/bin/$applet"; done
  for applet in server cli; do
    [ -e "$root/usr/bin/redis-$applet" ] || ln -s "$flavour-$applet" "$root/usr/bin/redis-$applet"
  done
  echo 'root:x:0:0:root:/data:/bin/sh' >"$root/etc/passwd"
  echo 'root:x:0:' >"$root/etc/group"
  cat >"$root/usr/local/bin/docker-entrypoint.sh" <<'ENTRY'
#!/bin/sh
# Arguments alone mean the server, as in the official images.
case ${1-} in
  '' | -* | *.conf) set -- redis-server "$@" ;;
esac
# Debian's servers refuse other hosts by default, and a published port looks like one.
case $1,$* in
  *-server,*protected-mode*) ;;
  *-server,*) set -- "$@" --protected-mode no ;;
esac
exec "$@"
ENTRY
  chmod 755 "$root/usr/local/bin/docker-entrypoint.sh"
}

import() {
  tar -c -C "$root" . | docker import \
    --change 'ENTRYPOINT ["docker-entrypoint.sh"]' \
    --change 'CMD ["redis-server"]' \
    --change 'ENV PATH=/usr/local/bin:/usr/bin:/bin' \
    --change 'WORKDIR /data' \
    --change 'VOLUME /data' \
    --change 'EXPOSE 6379/tcp' \
    --change 'LABEL org.redislockservice.standin=true' \
    - "$tag" >/dev/null
  # A library that is missing shows here, not in the first test.
  docker run --rm "$tag" redis-server --version || { docker rmi "$tag" >/dev/null; fail "$tag does not run"; }
}

prepare_apt
download
unpack
furnish
import
