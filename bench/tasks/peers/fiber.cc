// SPDX-License-Identifier: MIT
//
// The rows of bench-tasks with Boost.Fiber: tasks ROW PROCESSORS prints one number, see tasks.py.
// Stacks are 64 KiB, or 8 KiB for a million of them. On two threads it uses the work_stealing
// scheduler. There is no select. The row of a million sleeps runs on one thread only, because no
// scheduler survives it on more.
#include <boost/fiber/algo/round_robin.hpp>
#include <boost/fiber/algo/work_stealing.hpp>
#include <boost/fiber/all.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

namespace bf = boost::fibers;
using stack = bf::fixedsize_stack;
using clock_type = std::chrono::steady_clock;

namespace
{

std::size_t stack_size = 64 * 1024;

template <class F>
bf::fiber go(F f)
{
	return bf::fiber(bf::launch::post, std::allocator_arg, stack(stack_size), std::move(f));
}

double ns(clock_type::duration d)
{
	return std::chrono::duration<double, std::nano>(d).count();
}

double timed(int n, const std::function<void()> &body)
{
	const auto began = clock_type::now();
	body();
	return ns(clock_type::now() - began) / n;
}

double spawn_all()
{
	const int n = 1000000;
	return timed(n, [] {
		std::vector<bf::fiber> all;
		all.reserve(n);
		for (int i = 0; i < n; i++)
			all.push_back(go([] {}));
		for (bf::fiber &each : all)
			each.join();
	});
}

double spawn_group()
{
	const int n = 1000000;
	return timed(n, [] {
		std::atomic<int> left = n;
		bf::promise<void> over;
		for (int i = 0; i < n; i++)
			go([&] {
				if (--left == 0)
					over.set_value();
			}).detach();
		over.get_future().wait();
	});
}

double spawn_join()
{
	const int n = 300000;
	return timed(n, [] {
		for (int i = 0; i < n; i++)
			go([] {}).join();
	});
}

double yield()
{
	const int n = 1000000;
	return timed(2 * n, [] {
		const auto body = [] {
			for (int i = 0; i < n; i++)
				boost::this_fiber::yield();
		};
		bf::fiber a = go(body), b = go(body);
		a.join();
		b.join();
	});
}

double ping_pong()
{
	const int n = 300000;
	bf::unbuffered_channel<int> ping, pong;
	bf::fiber other = go([&] {
		for (int v : ping)
			pong.push(v);
	});
	const double result = timed(n, [&] {
		for (int i = 0; i < n; i++) {
			ping.push(i);
			pong.value_pop();
		}
	});
	ping.close();
	other.join();
	return result;
}

double buffered(int pairs)
{
	const int n = 2000000;
	bf::buffered_channel<int> channel(128);
	return timed(n, [&] {
		std::vector<bf::fiber> senders, receivers;
		for (int i = 0; i < pairs; i++) {
			senders.push_back(go([&] {
				for (int j = 0; j < n / pairs; j++)
					channel.push(j);
			}));
			receivers.push_back(go([&] {
				int v;
				while (channel.pop(v) == bf::channel_op_status::success)
					continue;
			}));
		}
		for (bf::fiber &each : senders)
			each.join();
		channel.close();
		for (bf::fiber &each : receivers)
			each.join();
	});
}

double mutex()
{
	const int n = 4000000;
	bf::mutex lock;
	long count = 0;
	return timed(n, [&] {
		std::vector<bf::fiber> all;
		for (int i = 0; i < 8; i++)
			all.push_back(go([&] {
				for (int j = 0; j < n / 8; j++) {
					lock.lock();
					count++;
					lock.unlock();
				}
			}));
		for (bf::fiber &each : all)
			each.join();
	});
}

using up_channel = bf::buffered_channel<long>;

void leaf(up_channel &up, long from, long size)
{
	if (size == 1) {
		up.push(from);
		return;
	}
	up_channel mine(16);
	for (long i = 0; i < 10; i++)
		go([&mine, from, size, i] {
			leaf(mine, from + i * (size / 10), size / 10);
		}).detach();
	long sum = 0;
	for (int i = 0; i < 10; i++)
		sum += mine.value_pop();
	up.push(sum);
}

double skynet()
{
	return timed(1, [] {
		up_channel up(2);
		go([&] { leaf(up, 0, 1000000); }).detach();
		if (up.value_pop() != 499999500000)
			abort();
	});
}

double cpu()
{
	rusage usage{};
	getrusage(RUSAGE_SELF, &usage);
	return double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9 +
	       double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3;
}

double sleeps()
{
	const int n = 1000000;
	const double before = cpu();
	std::vector<bf::fiber> all;
	all.reserve(n);
	for (int i = 0; i < n; i++)
		all.push_back(go([] { boost::this_fiber::sleep_for(std::chrono::seconds(1)); }));
	for (bf::fiber &each : all)
		each.join();
	return (cpu() - before) / n;
}

double resident()
{
	long size = 0, pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	if (!file || fscanf(file, "%ld %ld", &size, &pages) != 2)
		abort();
	fclose(file);
	return double(pages) * double(sysconf(_SC_PAGESIZE));
}

double idle_bytes()
{
	const int n = 200000;
	bf::mutex lock;
	bf::condition_variable never;
	const double before = resident();
	for (int i = 0; i < n; i++)
		go([&] {
			std::unique_lock<bf::mutex> held(lock);
			never.wait(held);
		}).detach();
	for (int i = 0; i < 10; i++)
		boost::this_fiber::yield();
	const double bytes = (resident() - before) / n;
	printf("%f\n", bytes);
	fflush(stdout);
	_exit(0);
}

} // namespace

int main(int, char **argv)
{
	const std::map<std::string, std::function<double()>> rows = {
		{"spawn-all", spawn_all},
		{"spawn-group", spawn_group},
		{"spawn-join", spawn_join},
		{"yield", yield},
		{"ping-pong", ping_pong},
		{"buffered-1", [] { return buffered(1); }},
		{"buffered-4", [] { return buffered(4); }},
		{"mutex-8", mutex},
		{"skynet", skynet},
		{"sleeps", sleeps},
		{"idle-task", idle_bytes}};
	const unsigned threads = unsigned(atoi(argv[2]));
	for (const char *crowded : {"spawn-all", "spawn-group", "skynet", "sleeps", "idle-task"})
		if (crowded == std::string(argv[1]))
			stack_size = 8 * 1024;
	const auto row = rows.find(argv[1]);
	if (row == rows.end())
		return 77;
	std::vector<std::thread> others;
	if (threads > 1) {
		for (unsigned i = 1; i < threads; i++)
			others.emplace_back([threads] {
				bf::use_scheduling_algorithm<bf::algo::work_stealing>(threads,
										      true);
				bf::mutex lock;
				bf::condition_variable never;
				std::unique_lock<bf::mutex> held(lock);
				never.wait(held);
			});
		bf::use_scheduling_algorithm<bf::algo::work_stealing>(threads, true);
	}
	double result = 0;
	go([&] { result = row->second(); }).join();
	printf("%f\n", result);
	fflush(stdout);
	_exit(0);
}
