// SPDX-License-Identifier: MIT
//
// A name service for the tests of one program, which includes this in one source: names that end in
// ".test" are answered here, as each case wants, for the library under test, too. Other names are
// left to the C library.
#ifndef SENNIT_TESTS_SUPPORT_NAMES_H
#define SENNIT_TESTS_SUPPORT_NAMES_H

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "support/runtime.h"

namespace test
{

// Whether a lookup hangs, if its name begins with "hangs", or if it is for the name of 127.0.0.99.
inline std::atomic<bool> hangs;
// How many lookups have begun, how many hang, and the most that have hung at the same time.
inline std::atomic<int> asked, inside, most_inside;
// The niceness of the thread that made the last lookup.
inline std::atomic<int> niceness;
// How often the C library was called, for names and numbers alike.
inline std::atomic<int> called;
// How many threads exist on which a lookup has hung.
inline std::atomic<int> threads_that_hung;

// The answer for a name; without an entry it is 127.0.0.1.
struct Answer {
	int error = 0;
	std::vector<std::string> addresses;
};

inline std::mutex answers_lock;
// Never destroyed, because a lookup that has hung may still end while the program exits.
inline auto &answers = *new std::map<std::string, Answer>;

// A thread may be looking a name up when another one forks.
inline const int answers_fork = pthread_atfork(
	[] { answers_lock.lock(); }, [] { answers_lock.unlock(); }, [] { answers_lock.unlock(); });

inline void set_answer(const std::string &name, const Answer &answer)
{
	const std::lock_guard guard(answers_lock);

	answers[name] = answer;
}

inline Answer answer_of(const std::string &name)
{
	const std::lock_guard guard(answers_lock);
	const auto found = answers.find(name);

	return found == answers.end() ? Answer{0, {"127.0.0.1"}} : found->second;
}

inline void hang()
{
	struct Counted {
		Counted() { threads_that_hung++; }
		~Counted() { threads_that_hung--; }
	};
	thread_local Counted counted;
	const int now = ++inside;

	for (int most = most_inside; now > most && !most_inside.compare_exchange_weak(most, now);)
		continue;
	// Not without a limit, so that a test that waits for it fails instead of hanging. All
	// together look 5,000 times a second: hundreds that each did would leave the test no time.
	for (const int64_t end = sn_now() + 2 * patience; hangs && sn_now() < end;)
		usleep(useconds_t(200 * std::max(1, inside.load())));
	inside--;
}

// Makes lookups hang as long as the object lives.
class Hanging
{
public:
	Hanging()
	{
		asked = most_inside = 0;
		hangs = true;
	}
	~Hanging() { end(); }
	void end()
	{
		hangs = false;
		EXPECT_TRUE(eventually_in_thread([] { return inside == 0; }));
	}
};

} // namespace test

using GetAddrInfo = int (*)(const char *, const char *, const addrinfo *, addrinfo **);
using GetNameInfo = int (*)(const sockaddr *, socklen_t, char *, socklen_t, char *, socklen_t, int);

// Each function replaces the C library's. A list that was put together from several can be freed as
// one.
extern "C" int getaddrinfo(const char *host, const char *service, const addrinfo *hints,
			   addrinfo **list)
{
	static const auto real = reinterpret_cast<GetAddrInfo>(dlsym(RTLD_NEXT, "getaddrinfo"));
	addrinfo more = *hints;
	int err = 0;

	test::called++;
	if (!host || (hints->ai_flags & AI_NUMERICHOST) ||
	    !std::string_view(host).ends_with(".test"))
		return real(host, service, hints, list);
	test::asked++;
	test::niceness = getpriority(PRIO_PROCESS, 0);
	if (std::string_view(host).starts_with("hangs"))
		test::hang();
	const test::Answer answer = test::answer_of(host);
	more.ai_flags |= AI_NUMERICHOST;
	err = answer.error;
	for (const std::string &each : answer.addresses)
		if (err == 0) {
			err = real(each.c_str(), service, &more, list);
			if (err == 0)
				list = &(*list)->ai_next;
		}
	return err;
}

extern "C" int getnameinfo(const sockaddr *address, socklen_t length, char *host, socklen_t size,
			   char *service, socklen_t service_size, int flags)
{
	static const auto real = reinterpret_cast<GetNameInfo>(dlsym(RTLD_NEXT, "getnameinfo"));
	const auto *v4 = reinterpret_cast<const sockaddr_in *>(address);

	if ((flags & NI_NUMERICHOST) || address->sa_family != AF_INET ||
	    ntohl(v4->sin_addr.s_addr) != INADDR_LOOPBACK + 98)
		return real(address, length, host, size, service, service_size, flags);
	test::asked++;
	test::hang();
	snprintf(host, size, "ninety-nine.test");
	return 0;
}

#endif
