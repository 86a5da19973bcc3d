// SPDX-License-Identifier: MIT
// Labels: machine
//
// Programs that were compiled with an older or a newer header than the library: each structure that
// may grow is accepted in every size, and one whose size was not set is an error. The structures of
// the collector, of the hooks and of TLS are tested in their folders.
#include <string>

#include <sennit/unstable.h>
#include <sennit/wait_stats.h>

#include "arch/sized.h"
#include "support/net.h"
#include "support/sized.h"
#include "support/unix.h"

namespace
{

using test::expect_gives;
using test::expect_takes;

// The structures as they were, or could have been, before the last fields were added.
namespace old
{

struct task_attr {
	size_t size;
	const char *name;
	size_t stack_size;
	uint32_t flags;
};

struct run_attr {
	size_t size;
	size_t stack_size;
};

struct process_attr {
	size_t size;
	const char *program;
	const char *directory;
};

struct udp_options {
	size_t size;
	uint32_t flags;
	int receive_buffer;
};

// A new field never lies in what was padding, so the older forms of unix_options and relay_tuning
// have only the size.
struct unix_options {
	size_t size;
};

struct relay_options {
	size_t size;
	int64_t idle_timeout;
	int64_t half_close_timeout;
};

struct relay_tuning {
	size_t size;
};

struct run_stats {
	size_t size;
	uint64_t tasks_spawned;
	uint64_t tasks_alive;
};

struct copy_stats {
	size_t size;
	uint64_t pipes;
	uint64_t pipes_borrowed;
	uint64_t pipes_limit;
};

struct wait_stats {
	size_t size;
	const char *name;
	const char *what;
};

} // namespace old

#define SAME_PLACE(type, field) \
	static_assert(offsetof(struct sn_##type, field) == offsetof(old::type, field))

SAME_PLACE(task_attr, size);
SAME_PLACE(task_attr, flags);
SAME_PLACE(run_attr, stack_size);
SAME_PLACE(process_attr, directory);
SAME_PLACE(udp_options, receive_buffer);
SAME_PLACE(unix_options, size);
SAME_PLACE(relay_options, half_close_timeout);
SAME_PLACE(relay_tuning, size);
SAME_PLACE(run_stats, tasks_alive);
SAME_PLACE(copy_stats, pipes_limit);
SAME_PLACE(wait_stats, what);

TASK_TEST(Sized, TaskAttributes)
{
	static std::string name;
	const auto note = [](void *) {
		name = sn_task_name(sn_self());
		return 0;
	};
	const old::task_attr attr = {0, "old", 32 << 10, 0};

	expect_takes<sn_task_attr>(attr, [&](const sn_task_attr *each) {
		sn_task *task = nullptr;

		name = "";
		const int err = sn_spawn(&task, note, nullptr, each);
		if (err < 0)
			return err;
		EXPECT_EQ(0, sn_join(task, nullptr));
		EXPECT_EQ("old", name);
		return err;
	});
	sn_scope *scope = nullptr;

	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	expect_takes<sn_task_attr>(attr, [&](const sn_task_attr *each) {
		return sn_scope_spawn(scope, note, nullptr, each);
	});
	EXPECT_EQ(0, sn_scope_close(scope));
}

TASK_TEST(Sized, TaskAttributesOfATaskThatBeginsWhenAStreamIsReadable)
{
	test::Pair pair;
	static std::atomic<int> began;

	began = 0;
	EXPECT_EQ(1, sn_tcp_write(pair.server, "x", 1));
	EXPECT_TRUE(test::eventually([&] { return test::unread(pair.client) == 1; }));
	expect_takes<sn_task_attr>(old::task_attr{0, "old", 0, 0}, [&](const sn_task_attr *each) {
		const int before = began;
		const int err = sn_spawn_when_readable(
			sn_tcp_stream(pair.client), nullptr,
			[](void *) {
				began++;
				return 0;
			},
			nullptr, each);

		if (err == 0) {
			EXPECT_TRUE(test::eventually([&] { return began > before; }));
		}
		return err;
	});
}

TEST(Sized, RunAttributes)
{
	expect_takes<sn_run_attr>(old::run_attr{0, 64 << 10}, [](const sn_run_attr *each) {
		return sn_run_with_attr([](void *) { return 0; }, nullptr, each);
	});
}

TASK_TEST(Sized, ProcessAttributes)
{
	const char *const argv[] = {"named", "-c", "pwd", nullptr};
	const old::process_attr attr = {0, "/bin/sh", "/"};

	expect_takes<sn_process_attr>(attr, [&](const sn_process_attr *each) {
		struct sn_process_result result;
		const int err =
			sn_process_output(&result, argv, nullptr, 0, 0, each, SN_NO_DEADLINE);

		if (err == 0) {
			EXPECT_STREQ("/\n", result.out);
		}
		sn_process_result_free(&result);
		return err;
	});
	expect_takes<sn_process_attr>(attr, [&](const sn_process_attr *each) {
		const char *const quiet[] = {"named", "-c", ":", nullptr};
		sn_process *process = nullptr;
		int err = sn_process_start(&process, quiet, each);

		if (err == 0)
			err = sn_process_wait(process, nullptr, SN_NO_DEADLINE);
		EXPECT_EQ(0, sn_process_close(process));
		return err;
	});
}

TASK_TEST(Sized, UdpOptions)
{
	const old::udp_options options = {0, SN_UDP_REUSE_PORT, 100000};
	struct sn_address at = {};

	ASSERT_EQ(0, sn_address_parse(&at, "127.0.0.1:0"));
	const auto close_made = [](int err, sn_udp *made) {
		if (err == 0) {
			EXPECT_LE(100000, sn_udp_get(made, SN_UDP_RECEIVE_BUFFER));
			EXPECT_EQ(0, sn_udp_close(made));
		}
		return err;
	};
	expect_takes<sn_udp_options>(options, [&](const sn_udp_options *each) {
		sn_udp *made = nullptr;
		const int err = sn_udp_open(&made, "127.0.0.1:0", each);

		return close_made(err, made);
	});
	expect_takes<sn_udp_options>(options, [&](const sn_udp_options *each) {
		sn_udp *made = nullptr;
		const int err = sn_udp_open_at(&made, &at, each);

		return close_made(err, made);
	});
	expect_takes<sn_udp_options>(options, [&](const sn_udp_options *each) {
		sn_udp *made = nullptr;
		const int err = sn_udp_connect(&made, "127.0.0.1:9", each, SN_NO_DEADLINE);

		return close_made(err, made);
	});
	expect_takes<sn_udp_options>(options, [&](const sn_udp_options *each) {
		sn_udp *made = nullptr;
		const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		const int err = sn_udp_adopt(&made, fd, each);

		if (err < 0)
			close(fd);
		return close_made(err, made);
	});
}

TASK_TEST(Sized, UnixOptions)
{
	const old::unix_options options = {0};

	expect_takes<sn_unix_options>(options, [](const sn_unix_options *each) {
		sn_unix_listener *made = nullptr;
		const int err = sn_unix_listen(&made, "@", each);

		EXPECT_EQ(0, sn_unix_listener_close(made));
		return err;
	});
	expect_takes<sn_unix_options>(options, [](const sn_unix_options *each) {
		sn_unix *made = nullptr;
		const int err = sn_unix_bind(&made, "@", each);

		EXPECT_EQ(0, sn_unix_close(made));
		return err;
	});
}

// A relay of streams that have ended already, so it soon returns.
int relay_with(const sn_relay_options *options)
{
	test::Listener listener;
	test::Pair a(listener), b(listener);
	struct sn_relay_result result;

	EXPECT_EQ(0, sn_tcp_shutdown(a.client, SN_SHUT_WRITE));
	EXPECT_EQ(0, sn_tcp_shutdown(b.client, SN_SHUT_WRITE));
	const int err =
		sn_relay(sn_tcp_stream(a.server), sn_tcp_stream(b.server), &result, options);

	EXPECT_EQ(err, result.error);
	return err;
}

TASK_TEST(Sized, RelayOptions)
{
	expect_takes<sn_relay_options>(old::relay_options{0, test::patience, 0}, relay_with);
}

TASK_TEST(Sized, RelayTuning)
{
	expect_takes<sn_relay_tuning>(old::relay_tuning{0}, [](const sn_relay_tuning *each) {
		struct sn_relay_options options = {};

		options.tuning = each;
		return relay_with(&options);
	});
}

TASK_TEST(Sized, RunStatistics)
{
	expect_gives<struct sn_run_stats, old::run_stats>(
		[](struct sn_run_stats *each) { return sn_run_stats(each); },
		[](const old::run_stats &stats) {
			EXPECT_LE(1u, stats.tasks_spawned);
			EXPECT_LE(1u, stats.tasks_alive);
			EXPECT_LE(stats.tasks_alive, stats.tasks_spawned);
		});
}

TASK_TEST(Sized, CopyStatistics)
{
	expect_gives<struct sn_copy_stats, old::copy_stats>(
		[](struct sn_copy_stats *each) { return sn_copy_stats(each); },
		[](const old::copy_stats &stats) {
			EXPECT_LE(stats.pipes_borrowed, stats.pipes);
			EXPECT_LE(stats.pipes, stats.pipes_limit);
		});
}

TEST(Sized, WaitStatistics)
{
	expect_gives<struct sn_wait_stats, old::wait_stats>(
		[](struct sn_wait_stats *each) { return sn_wait_stats(each, 1); },
		[](const old::wait_stats &stats) { EXPECT_LT(0u, strlen(stats.name)); });

	// The function fills an array: elements are as far apart as the size of the first one says.
	const int count = sn_wait_stats(nullptr, 0);
	std::vector<struct sn_wait_stats> now(size_t(count) + 1);
	std::vector<old::wait_stats> sites(size_t(count) + 1);

	ASSERT_LT(1, count);
	EXPECT_EQ(count, sn_wait_stats(now.data(), count));
	sites[0].size = sizeof sites[0];
	sites[size_t(count)].name = "untouched";
	EXPECT_EQ(count,
		  sn_wait_stats(reinterpret_cast<struct sn_wait_stats *>(sites.data()), count));
	for (size_t i = 0; i < size_t(count); i++) {
		EXPECT_EQ(sizeof sites[0], sites[i].size);
		EXPECT_STREQ(now[i].name, sites[i].name);
		EXPECT_STREQ(now[i].what, sites[i].what);
	}
	EXPECT_STREQ("untouched", sites[size_t(count)].name);
}

TEST(Sized, NothingIsReadOrWrittenBeyondASize)
{
	struct ours {
		size_t size;
		int first, second;
	} ours = {};
	const size_t header = sizeof(size_t);

	// Every size from that of the size itself to one beyond the library's.
	for (size_t size = header; size <= sizeof ours; size++) {
		std::vector<unsigned char> theirs(size, 0x11);

		memcpy(theirs.data(), &size, sizeof size);
		memset(&ours, 0xff, sizeof ours);
		EXPECT_EQ(0, sn_sized_take(&ours, sizeof ours, theirs.data())) << size;
		EXPECT_EQ(sizeof ours, ours.size);
		for (size_t i = header; i < sizeof ours; i++)
			EXPECT_EQ(i < size ? 0x11 : 0, ((unsigned char *)&ours)[i]) << size;
		memset(&ours, 0x22, sizeof ours);
		EXPECT_EQ(0, sn_sized_give(theirs.data(), &ours, sizeof ours)) << size;
		EXPECT_EQ(0, memcmp(theirs.data(), &size, sizeof size));
		for (size_t i = header; i < size; i++)
			EXPECT_EQ(0x22, theirs[i]) << size;
	}
	EXPECT_EQ(0, sn_sized_take(&ours, sizeof ours, nullptr));
	EXPECT_EQ(sizeof ours, ours.size);
	EXPECT_EQ(0, ours.first);
	EXPECT_EQ(-EINVAL, sn_sized_give(nullptr, &ours, sizeof ours));
}

} // namespace
