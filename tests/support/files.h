// SPDX-License-Identifier: MIT
//
// Temporary files, which have no name any more, and what is in them.
#ifndef SENNIT_TESTS_SUPPORT_FILES_H
#define SENNIT_TESTS_SUPPORT_FILES_H

#include <cstdlib>
#include <string>

#include <unistd.h>

#include <gtest/gtest.h>

namespace test
{

inline int temporary()
{
	char name[] = "/tmp/sennit-XXXXXX";
	const int fd = mkstemp(name);

	EXPECT_LE(0, fd);
	unlink(name);
	return fd;
}

inline std::string contents(int fd)
{
	std::string text;
	char buffer[65536];
	ssize_t n;

	lseek(fd, 0, SEEK_SET);
	while ((n = read(fd, buffer, sizeof buffer)) > 0)
		text.append(buffer, size_t(n));
	return text;
}

// What the call writes to a descriptor, when it returns what is expected.
template <class Call>
std::string written_by(Call call, int expected = 0)
{
	const int fd = temporary();

	EXPECT_EQ(expected, call(fd));
	const std::string text = contents(fd);
	close(fd);
	return text;
}

} // namespace test

#endif
