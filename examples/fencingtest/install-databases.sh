#!/bin/sh
# Installs the database servers that the tests in this folder start for
# themselves. Debian and Ubuntu, as root. Does nothing if both are there.
#
# mariadb-server-core is the server without the service: nothing is started.
set -eu

missing=""
for initdb in /usr/lib/postgresql/*/bin/initdb; do
	[ -x "$initdb" ] || missing="$missing postgresql"
	break
done
[ -x /usr/sbin/mariadbd ] || missing="$missing mariadb-server-core"
[ -n "$missing" ] || exit 0

export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # a list of words
install() { apt-get install -y -q --no-install-recommends $missing; }
install || { apt-get update -q && install; }
