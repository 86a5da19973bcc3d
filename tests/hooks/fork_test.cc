// SPDX-License-Identifier: MIT
//
// Handlers of pthread_atfork() may use hooked calls, whether they were registered before the
// runtime's or after them: the results are those of a thread.
#include <cstdarg>
#include <string>

#include <netdb.h>
#include <poll.h>
#include <sys/wait.h>

#include "hooks/hooks.h"

namespace
{

using namespace test;

bool wanted; // the handlers do something
std::string seen;
uint64_t parked; // calls in the last handlers

void note(const char *format, ...)
{
	char text[100];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	seen += text;
}

// Calls that wait, each as long as it can, and calls that end waits.
void use_hooked_calls(const char *who)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct addrinfo *found = nullptr;
	char byte = 0;
	int fd[2];

	if (!wanted)
		return;
	note("%s: pipe %d", who, pipe2(fd, O_CLOEXEC));
	struct pollfd one = {fd[0], POLLIN, 0};
	note(", poll %d", poll(&one, 1, 5));
	note(", usleep %d", usleep(1000));
	note(", write %zd", write(fd[1], "x", 1));
	note(", poll %d", poll(&one, 1, 5));
	const ssize_t got = read(fd[0], &byte, 1);
	note(", read %zd %c", got, byte);
	pthread_mutex_lock(&mutex);
	const int closed = close(fd[0]);
	note(", close %d %d", closed, close(fd[1]));
	pthread_mutex_unlock(&mutex);
	note(", getaddrinfo %d", getaddrinfo("localhost", nullptr, nullptr, &found));
	freeaddrinfo(found);
	const int tcp = tcp_socket();
	const TcpListener listener;
	const int connected = listener.connect_to(tcp);
	note(", connect %d, close %d\n", connected, close(tcp));
}

// The same in a handler that is called without the runtime's locks, and may park.
void use_and_count(const char *who)
{
	const uint64_t before = wanted ? hooks().parked : 0;

	use_hooked_calls(who);
	parked += wanted ? hooks().parked - before : 0;
}

const int registered_first = pthread_atfork([] { use_hooked_calls("first, before"); },
					    [] { use_hooked_calls("first, in the parent"); },
					    [] { use_hooked_calls("first, in the child"); });

// Forks, and returns what the handlers have seen in both processes.
std::string fork_once()
{
	int fd[2];
	char text[4096];
	int status = -1;
	pid_t child;

	EXPECT_EQ(0, pipe2(fd, O_CLOEXEC));
	seen.clear();
	wanted = true;
	alarm(unsigned(test::patience / test::second)); // ends this process if it hangs there
	child = fork();
	if (child != 0)
		alarm(0);
	wanted = false;
	if (child == 0) {
		CHILD_CHECK(write(fd[1], seen.data(), seen.size()) == ssize_t(seen.size()));
		_exit(0);
	}
	close(fd[1]);
	struct pollfd one = {fd[0], POLLIN, 0};
	if (poll(&one, 1, int(test::patience / test::ms)) == 0) {
		ADD_FAILURE() << "the child hangs";
		kill(child, SIGKILL);
	}
	const ssize_t n = read(fd[0], text, sizeof text);
	close(fd[0]);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	EXPECT_EQ(0, status);
	return seen + "child:\n" + std::string(text, n > 0 ? size_t(n) : 0);
}

TEST(Fork, HandlersGetWhatThreadsGet)
{
	// Its allocator is locked while the first handlers run (asan_fork.cc).
	if (TEST_ASAN)
		GTEST_SKIP() << "the address sanitizer's allocator cannot be used there";
	EXPECT_EQ(0, registered_first);
	// A run before registers the runtime's handlers, which come between the first and the last.
	test::run([] {});
	EXPECT_EQ(0, pthread_atfork([] { use_and_count("last, before"); },
				    [] { use_and_count("last, in the parent"); },
				    [] { use_hooked_calls("last, in the child"); }));
	const std::string expected = fork_once();

	EXPECT_NE(std::string::npos, expected.find("last, in the child: pipe 0, poll 0"));
	EXPECT_NE(std::string::npos, expected.find("first, before: pipe 0, poll 0"));
	EXPECT_NE(std::string::npos, expected.find("read 1 x"));
	EXPECT_NE(std::string::npos, expected.find("connect 0, close 0"));
	test::run([&] {
		hooked([&] {
			parked = 0;
			EXPECT_EQ(expected, fork_once());
			EXPECT_LT(0u, parked);
		}).join();
	});
}

} // namespace
