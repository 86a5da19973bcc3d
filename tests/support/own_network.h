// SPDX-License-Identifier: MIT
//
// A network and files of /etc that are the test program's own: it starts itself again by unshare(1)
// in its own user, network and mount namespaces, which needs no privilege. There every port of
// 127.0.0.1 is free. Some machines and emulators do not allow that; the tests are skipped there.
#ifndef SENNIT_TESTS_SUPPORT_OWN_NETWORK_H
#define SENNIT_TESTS_SUPPORT_OWN_NETWORK_H

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <fcntl.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/runtime.h"

namespace test
{

class OwnNetwork
{
public:
	// Called at the beginning of main(). Each of the files is replaced by a text.
	static void enter(int argc, char **argv, const std::map<std::string, std::string> &files)
	{
		for (int i = 1; i < argc; i++)
			if (strncmp(argv[i], "--gtest_list_tests", 18) == 0)
				return;
		if (!exists() && is_allowed(files))
			start_again(argv);
		if (!exists())
			return;
		start_loopback();
		for (const auto &[name, text] : files)
			replace(name, text);
	}
	// If it does not exist, the tests have to be skipped.
	static bool exists() { return getenv(mark) != nullptr; }

private:
	// Set in the environment of the program that has been started again.
	static constexpr const char *mark = "SENNIT_OWN_NETWORK";

	[[noreturn]] static void die(const std::string &what)
	{
		perror(("own_network: " + what).c_str());
		exit(1);
	}

	[[noreturn]] static void start_again(char **argv)
	{
		char self[4096] = "";

		setenv(mark, "1", 1);
		if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
			die("cannot find its own program");
		std::vector<char *> words;
		for (const char *each :
		     {"unshare", "--user", "--map-root-user", "--net", "--mount"})
			words.push_back(const_cast<char *>(each));
		words.push_back(self);
		for (argv++; *argv; argv++)
			words.push_back(*argv);
		words.push_back(nullptr);
		execvp(words[0], words.data());
		die("cannot run unshare(1)");
	}

	// A new namespace has a loopback interface, which is down.
	static void start_loopback()
	{
		const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		ifreq loopback{};

		strcpy(loopback.ifr_name, "lo");
		loopback.ifr_flags = IFF_UP;
		if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &loopback) != 0)
			die("cannot bring the loopback interface up");
		close(fd);
	}

	// Lasts as long as this process's mount namespace.
	static void replace(const std::string &name, const std::string &text)
	{
		char other[] = "/tmp/sennit-test-XXXXXX";
		const int fd = mkstemp(other);

		if (fd < 0 || write(fd, text.data(), text.size()) != ssize_t(text.size()) ||
		    fchmod(fd, 0644) != 0 ||
		    mount(other, name.c_str(), nullptr, MS_BIND, nullptr) != 0)
			die("cannot replace " + name);
		close(fd);
		unlink(other);
	}

	// Tries it out. Some containers and kernels forbid namespaces altogether; others allow
	// them, but nothing inside them.
	static bool is_allowed(const std::map<std::string, std::string> &files)
	{
		std::string mounts = "true";

		if (TEST_EMULATED)
			return false; // the emulator cannot be started again under that name
		for (const auto &[name, text] : files)
			mounts += " && mount --bind " + name + " " + name;
		return system(("unshare --user --map-root-user --net --mount sh -c '" + mounts +
			       "' 2>/dev/null")
				      .c_str()) == 0;
	}
};

} // namespace test

#endif
