/* SPDX-License-Identifier: MIT */
/*
 * Whether a file has changed since it was read. A file that is replaced has another inode, one that
 * is written to another time or size; the time of the last change of the inode covers what sets
 * back the others.
 *
 * Files are looked at from time to time (rounds.hpp) instead of being watched by inotify, which
 * misses those of network file systems, and what a symbolic link far up the path leads to, which
 * is how Kubernetes replaces the files of a ConfigMap.
 */
#ifndef RELAY_FILE_STAMP_HPP
#define RELAY_FILE_STAMP_HPP

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace relay
{

/* Something of a file that is different after each change; the same for each that is not there. */
using file_stamp = std::array<std::int64_t, 6>;

/* By path. */
using file_stamps = std::map<std::string, file_stamp>;

/* A symbolic link counts as what it leads to. Blocks on the file system. */
file_stamp stamp_of(const std::string &path);

/* The same files as they are now. Blocks on the file system. */
file_stamps stamps_of(const file_stamps &which);

} // namespace relay

#endif
