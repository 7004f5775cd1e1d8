// Package fencingtest tests the package lockservice/fencing on real databases:
// SQLite inside the test's process, and PostgreSQL and MariaDB from their
// Debian packages. The tests start both servers on empty directories, as an
// unprivileged user, reachable by Unix sockets alone, and stop them at the end.
//
// A missing server fails the tests of that database and names the package to
// install; install-databases.sh installs both. Nothing is skipped.
//
// It lives in the module of the examples, so that the main module needs no
// database driver.
package fencingtest
