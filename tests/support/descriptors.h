// SPDX-License-Identifier: MIT
//
// Helpers for tests in which there are no free descriptors, or in which some may have leaked.
#ifndef SENNIT_TESTS_SUPPORT_DESCRIPTORS_H
#define SENNIT_TESTS_SUPPORT_DESCRIPTORS_H

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace test
{

// Takes every descriptor that the process can still open, until give_back().
class NoDescriptors
{
public:
	NoDescriptors()
	{
		EXPECT_EQ(0, getrlimit(RLIMIT_NOFILE, &former_));
		struct rlimit few = former_;
		few.rlim_cur = std::min<rlim_t>(former_.rlim_cur, 400);
		EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &few));
		// The monitor opens a file for some microseconds when it looks at a thread. That
		// descriptor must be taken, too, so this continues until none has been free for a
		// while.
		for (int full = 0; full < 5; full++) {
			for (int fd; (fd = dup(STDERR_FILENO)) >= 0; full = 0)
				taken_.push_back(fd);
			EXPECT_EQ(EMFILE, errno);
			usleep(10000);
		}
		EXPECT_FALSE(taken_.empty());
	}
	~NoDescriptors() { give_back(); }
	NoDescriptors(const NoDescriptors &) = delete;
	NoDescriptors &operator=(const NoDescriptors &) = delete;

	void give_back(size_t n = SIZE_MAX)
	{
		for (; n > 0 && !taken_.empty(); n--) {
			close(taken_.back());
			taken_.pop_back();
		}
		if (taken_.empty()) {
			EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &former_));
		}
	}

private:
	struct rlimit former_;
	std::vector<int> taken_;
};

// How many descriptors are open, of the first thousand. The monitor opens one for some microseconds
// when it looks at a thread, so this takes the least of several counts.
inline int open_descriptors()
{
	int least = INT32_MAX;

	for (int i = 0; i < 5; i++) {
		int count = 0;

		for (int fd = 0; fd < 1000; fd++)
			count += fcntl(fd, F_GETFD) >= 0;
		least = std::min(least, count);
	}
	return least;
}

} // namespace test

#endif
