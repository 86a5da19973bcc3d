/* SPDX-License-Identifier: MIT */
/*
 * Whether a file has changed since it was read. A replaced file has another inode, and a file that
 * was written to has another time or size. If a program resets these, the time of the inode's last
 * change still differs.
 *
 * Files are checked from time to time (rounds.hpp) instead of being watched by inotify. inotify
 * misses files of network file systems, and changes of a symbolic link far up the path, which is
 * how Kubernetes replaces the files of a ConfigMap.
 */
#ifndef RELAY_FILE_STAMP_HPP
#define RELAY_FILE_STAMP_HPP

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace relay
{

/* A value that differs after each change of a file. All missing files have the same one. */
using file_stamp = std::array<std::int64_t, 6>;

/* Stamps by the path of their file. */
using file_stamps = std::map<std::string, file_stamp>;

/* The stamp of the file that the path leads to, through symbolic links. Blocks on the file
 * system. */
file_stamp stamp_of(const std::string &path);

/* The stamps of the same files now. Blocks on the file system. */
file_stamps stamps_of(const file_stamps &which);

} // namespace relay

#endif
