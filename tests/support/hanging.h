// SPDX-License-Identifier: MIT
//
// A program that takes as long to load as a test wants.
#ifndef SENNIT_TESTS_SUPPORT_HANGING_H
#define SENNIT_TESTS_SUPPORT_HANGING_H

#include <csignal>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace test
{

// Loading a program hangs while another process has a lease on its file, which has to be broken
// first.
class HangingProgram
{
public:
	explicit HangingProgram(const char *original = "/bin/true")
	{
		signal(SIGIO, SIG_IGN);
		std::ifstream from(original, std::ios::binary);
		std::ofstream(path_, std::ios::binary) << from.rdbuf();
		EXPECT_EQ(0, chmod(path_.c_str(), 0755));
		fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
		leased_ = fcntl(fd_, F_SETLEASE, F_WRLCK) == 0;
	}
	~HangingProgram()
	{
		end();
		close(fd_);
		unlink(path_.c_str());
		signal(SIGIO, SIG_DFL);
	}
	HangingProgram(const HangingProgram &) = delete;
	HangingProgram &operator=(const HangingProgram &) = delete;

	bool hangs() const { return leased_; }
	// Once someone waits, the kernel reports the lease as one that is being reduced. Its signal
	// would not do, because it may be delayed until the thread that hangs continues.
	bool has_someone_waiting() const { return fcntl(fd_, F_GETLEASE) != F_WRLCK; }
	const std::string &path() const { return path_; }
	void end()
	{
		// Closing would not suffice, because the children that wait have copies of the
		// descriptor.
		if (leased_) {
			EXPECT_EQ(0, fcntl(fd_, F_SETLEASE, F_UNLCK));
		}
		leased_ = false;
	}

private:
	std::string path_ = "/tmp/sennit-hanging-" + std::to_string(getpid());
	int fd_ = -1;
	bool leased_ = false;
};

} // namespace test

#endif
