// SPDX-License-Identifier: MIT
//
// Helpers for the tests of Unix sockets: a directory that is removed, listeners and pairs that
// close themselves, and a count of the open descriptors.
#ifndef SENNIT_TESTS_SUPPORT_UNIX_H
#define SENNIT_TESTS_SUPPORT_UNIX_H

#include <algorithm>
#include <cstring>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/net.h"

namespace test
{

// A new directory, removed with the files in it.
class Directory
{
public:
	Directory()
	{
		char name[] = "/tmp/sennit-unix-XXXXXX";

		EXPECT_NE(nullptr, mkdtemp(name));
		path_ = name;
	}
	~Directory()
	{
		for (const std::string &name : names())
			unlink((path_ + "/" + name).c_str());
		rmdir(path_.c_str());
	}
	Directory(const Directory &) = delete;
	Directory &operator=(const Directory &) = delete;

	std::string operator/(const char *name) const { return path_ + "/" + name; }
	const std::string &path() const { return path_; }
	std::vector<std::string> names() const
	{
		std::vector<std::string> all;
		DIR *dir = opendir(path_.c_str());

		while (const dirent *entry = dir ? readdir(dir) : nullptr)
			if (entry->d_name[0] != '.')
				all.push_back(entry->d_name);
		if (dir)
			closedir(dir);
		return all;
	}

private:
	std::string path_;
};

class UnixListener
{
public:
	explicit UnixListener(const std::string &address = "@", sn_unix_type type = SN_UNIX_STREAM)
	{
		sn_unix_listener *made = nullptr;
		sn_unix_options options = {};

		options.type = type;
		EXPECT_EQ(0, sn_unix_listen(&made, address.c_str(), &options)) << address;
		if (!made)
			abort(); // without this, nothing else in the test would make sense
		listener_ = made;
	}
	~UnixListener() { close(); }
	UnixListener(const UnixListener &) = delete;
	UnixListener &operator=(const UnixListener &) = delete;

	// Atomic, because a task may call this while another one closes the listener.
	sn_unix_listener *get() const { return listener_; }
	std::string address() const
	{
		char text[SN_UNIX_ADDRESS_MAX];

		EXPECT_GT(sn_unix_listener_address(listener_, text, sizeof text), 0);
		return text;
	}
	sn_unix *accept()
	{
		sn_unix *conn = nullptr;

		EXPECT_EQ(0, sn_unix_accept(listener_, &conn));
		return conn;
	}
	void close()
	{
		if (sn_unix_listener *listener = listener_.exchange(nullptr)) {
			EXPECT_EQ(0, sn_unix_listener_close(listener));
		}
	}

private:
	std::atomic<sn_unix_listener *> listener_{nullptr};
};

inline sn_unix *unix_connect(const std::string &address, sn_unix_type type = SN_UNIX_STREAM)
{
	sn_unix *conn = nullptr;

	EXPECT_EQ(0, sn_unix_connect(&conn, address.c_str(), type, sn_now() + patience)) << address;
	return conn;
}

// Both ends of a connection.
class UnixPair
{
public:
	explicit UnixPair(sn_unix_type type = SN_UNIX_STREAM)
	{
		sn_unix *ends[2] = {};

		EXPECT_EQ(0, sn_unix_pair(ends, type));
		a = ends[0];
		b = ends[1];
	}
	~UnixPair()
	{
		sn_unix_close(a.exchange(nullptr));
		sn_unix_close(b.exchange(nullptr));
	}
	UnixPair(const UnixPair &) = delete;
	UnixPair &operator=(const UnixPair &) = delete;

	void close_a() { EXPECT_EQ(0, sn_unix_close(a.exchange(nullptr))); }
	void close_b() { EXPECT_EQ(0, sn_unix_close(b.exchange(nullptr))); }

	std::atomic<sn_unix *> a{nullptr}, b{nullptr};
};

inline sockaddr_un unix_address(const std::string &path)
{
	sockaddr_un address = {};

	address.sun_family = AF_UNIX;
	memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path));
	return address;
}

// A plain, blocking socket that is bound to the path; it listens if `backlog` is not negative.
inline int plain_bound(const std::string &path, int type = SOCK_STREAM, int backlog = -1)
{
	const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	const sockaddr_un address = unix_address(path);

	EXPECT_EQ(0, bind(fd, reinterpret_cast<const sockaddr *>(&address), sizeof address));
	if (backlog >= 0) {
		EXPECT_EQ(0, listen(fd, backlog));
	}
	return fd;
}

inline bool exists(const std::string &path)
{
	struct stat st;

	return lstat(path.c_str(), &st) == 0;
}

inline ino_t inode_of(const std::string &path)
{
	struct stat st = {};

	EXPECT_EQ(0, lstat(path.c_str(), &st)) << path;
	return st.st_ino;
}

} // namespace test

#endif
