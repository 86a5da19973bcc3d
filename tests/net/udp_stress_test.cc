// SPDX-License-Identifier: MIT
//
// Several tasks that receive and send on the same sockets, while scopes are cancelled and deadlines
// pass. Every datagram is counted: each is received exactly once. Senders have no more datagrams
// under way than the receive buffers hold, because the system drops the rest.
#include <memory>
#include <vector>

#include <dirent.h>

#include "support/udp.h"

namespace
{

using namespace test;

constexpr int window = 6, senders_n = 8, receivers_n = 6;

struct Datagram {
	uint32_t sender, number;
};

struct Shared {
	explicit Shared(int each) : each(each), counts(size_t(senders_n) * size_t(each)) {}

	const int each; // how many datagrams a sender sends
	Socket server;
	std::vector<std::atomic<int>> counts;
	std::atomic<int> received{0}, interrupted{0};
};

// Counts a datagram, and acknowledges it.
void count(Shared &shared, const sn_udp_message &m)
{
	Datagram datagram;

	ASSERT_EQ(sizeof datagram, m.length);
	memcpy(&datagram, m.data, sizeof datagram);
	ASSERT_LT(datagram.sender, uint32_t(senders_n));
	ASSERT_LT(datagram.number, uint32_t(shared.each));
	shared.counts[datagram.sender * size_t(shared.each) + datagram.number]++;
	shared.received++;
	sn_cancel_mask(); // the receiver's deadline may have passed since
	ASSERT_EQ(ssize_t(sizeof datagram),
		  sn_udp_send(shared.server.get(), &datagram, sizeof datagram, &m.peer));
	sn_cancel_unmask();
}

// Receives one or several datagrams, by either call; returns the result of the call.
int receive_some(Shared &shared, Random &random, std::vector<std::unique_ptr<Message>> &room)
{
	sn_udp_message all[8];
	const size_t n = 1 + random.below(8);

	for (size_t i = 0; i < n; i++)
		all[i] = *room[i];
	if (random.below(2)) {
		const ssize_t got =
			sn_udp_recv(shared.server.get(), all[0].data, all[0].size, &all[0].peer);

		if (got < 0)
			return int(got);
		all[0].length = size_t(got);
		count(shared, all[0]);
		return 1;
	}
	const int got = sn_udp_recv_messages(shared.server.get(), all, n);
	for (int i = 0; i < got; i++)
		count(shared, all[i]);
	return got;
}

// Receives until the socket is cancelled; from time to time in a scope with a deadline.
void receiver(Shared &shared, uint64_t seed)
{
	Random random(seed);
	std::vector<std::unique_ptr<Message>> room;

	for (int i = 0; i < 8; i++)
		room.push_back(std::make_unique<Message>(size_t(64)));
	for (;;) {
		const bool limited = random.below(4) == 0;
		sn_scope *scope = nullptr;

		if (limited) {
			ASSERT_EQ(0, sn_scope_open(&scope, sn_now() + int64_t(random.below(2000)) *
									      test::us));
		}
		const int got = receive_some(shared, random, room);
		if (limited) {
			sn_scope_close(scope);
		}
		if (got == -ECANCELED)
			return;
		if (got == -ETIMEDOUT)
			shared.interrupted++;
		else
			ASSERT_GT(got, 0);
	}
}

// Takes the acknowledgements of the caller's own datagrams.
void take_acknowledgements(Socket &socket, int &under_way, int most)
{
	while (under_way > most) {
		ASSERT_EQ(sizeof(Datagram), socket.receive().size());
		under_way--;
	}
}

void sender(Shared &shared, uint32_t self, uint64_t seed)
{
	Random random(seed);
	Socket socket;
	const sn_address to = shared.server.address();
	int under_way = 0;

	for (int done = 0; done < shared.each;) {
		const int n = std::min(1 + int(random.below(window)), shared.each - done);
		Datagram datagrams[window];
		sn_udp_message all[window] = {};

		take_acknowledgements(socket, under_way, window - n);
		for (int i = 0; i < n; i++) {
			datagrams[i] = {self, uint32_t(done + i)};
			all[i].data = &datagrams[i];
			all[i].size = sizeof datagrams[i];
			all[i].peer = to;
		}
		ASSERT_EQ(n, sn_udp_send_messages(socket.get(), all, size_t(n)));
		done += n;
		under_way += n;
	}
	take_acknowledgements(socket, under_way, 0);
}

TEST(UdpStress, EachDatagramIsReceivedOnce)
{
	Random seeds;

	test::run([&] {
		Shared shared(test::scaled(3000));
		std::vector<Task> receivers, senders;

		for (int i = 0; i < receivers_n; i++)
			receivers.emplace_back(
				[&, seed = seeds.next()] { receiver(shared, seed); });
		for (int i = 0; i < senders_n; i++)
			senders.emplace_back(
				[&, i, seed = seeds.next()] { sender(shared, uint32_t(i), seed); });
		join_all(senders);
		EXPECT_EQ(0, sn_udp_cancel(shared.server.get()));
		join_all(receivers);
		EXPECT_EQ(senders_n * shared.each, shared.received);
		for (const std::atomic<int> &count : shared.counts)
			ASSERT_EQ(1, count) << "seed " << seeds.seed();
	});
}

// Receivers come and go while single datagrams arrive. When the last datagram comes, a receiver is
// on the side, or queued behind another, or about to wait.
TEST(UdpStress, NoWakeUpIsLost)
{
	Random seeds;

	test::run([&] {
		Socket server, client;
		const sn_address to = server.address();
		std::atomic<int> left{test::scaled(20000)};
		std::vector<Task> tasks;

		for (int i = 0; i < 4; i++)
			tasks.emplace_back([&] {
				sn_address peer;
				char byte;

				while (left > 0 && sn_udp_recv(server.get(), &byte, 1, &peer) == 1)
					ASSERT_EQ(1, sn_udp_send(server.get(), &byte, 1, &peer));
			});
		// One datagram at a time, so that after a lost wake-up nothing else wakes a
		// receiver.
		Random random(seeds.next());
		while (left > 0) {
			const int burst = 1 + int(random.below(3));

			for (int i = 0; i < burst; i++)
				ASSERT_EQ(1, client.send("x", to));
			for (int i = 0; i < burst; i++)
				ASSERT_EQ("x", client.receive());
			left -= burst;
		}
		sn_udp_cancel(server.get());
		join_all(tasks);
	});
}

// Receivers come, wait, are cancelled and run out of time while datagrams arrive, until something
// ends the use of the socket. This must reach all receivers, wherever each of them is. The socket
// of the next round has the same structure in memory.
void receive_until(sn_udp *udp, int end, uint64_t seed, std::atomic<int> &received)
{
	Random random(seed);

	for (;;) {
		const bool limited = random.below(3) == 0;
		sn_scope *scope = nullptr;
		char byte;

		if (limited) {
			ASSERT_EQ(0, sn_scope_open(&scope, sn_now() + int64_t(random.below(100)) *
									      test::us));
		}
		const ssize_t n = sn_udp_recv(udp, &byte, 1, nullptr);
		const bool over = limited && n == -ETIMEDOUT && sn_cancelled() < 0;
		if (limited)
			sn_scope_close(scope);
		received += n == 1;
		if (n == end && !over)
			return;
		ASSERT_TRUE(n == 1 || over) << n;
	}
}

TEST(UdpStress, AnEndReachesAll)
{
	Random seeds;

	test::run([&] {
		for (int round = 0; round < test::scaled(600); round++) {
			const int ends[] = {-EBADF, -ECANCELED, -ETIMEDOUT}, end = ends[round % 3];
			Random random(seeds.next());
			Socket socket, client;
			const sn_address to = socket.address();
			std::atomic<int> received{0};
			std::vector<Task> tasks;
			int sent = 0;

			for (size_t i = 0, n = 2 + random.below(5); i < n; i++)
				tasks.emplace_back([&, udp = socket.get(), seed = random.next()] {
					receive_until(udp, end, seed, received);
				});
			for (int n = int(random.below(8)); sent < n; sent++) {
				ASSERT_EQ(1, client.send("x", to));
				if (random.below(3) == 0)
					sn_yield();
			}
			// In half of the rounds all datagrams are received first, so that usually
			// all receivers wait.
			if (random.below(2)) {
				ASSERT_TRUE(test::eventually([&] { return received == sent; }));
			}
			if (end == -EBADF)
				socket.close();
			else if (end == -ECANCELED)
				sn_udp_cancel(socket.get());
			else
				sn_udp_set_read_deadline(socket.get(),
							 sn_now() + int64_t(random.below(50)) *
									    test::us);
			join_all(tasks);
			EXPECT_LE(received, sent);
		}
	});
}

int threads()
{
	DIR *dir = opendir("/proc/self/task");
	int n = 0;

	while (const dirent *each = dir ? readdir(dir) : nullptr)
		n += each->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n;
}

TEST(UdpStress, AServerWithManyClientsNeedsFewThreads)
{
	for (int processors : {1, 4})
		test::run(processors, [&] {
			Socket server;
			const sn_address to = server.address();
			std::vector<Task> clients;
			// so many datagrams fit into the buffer
			sn_semaphore under_way = SN_SEMAPHORE_INIT(40);
			int most = 0;
			Task echo([&] {
				char buf[64];
				sn_address peer;
				ssize_t n;

				while ((n = sn_udp_recv(server.get(), buf, sizeof buf, &peer)) >= 0)
					ASSERT_EQ(n,
						  sn_udp_send(server.get(), buf, size_t(n), &peer));
				EXPECT_EQ(-ECANCELED, n);
			});

			for (int i = 0; i < 200; i++)
				clients.emplace_back([&, i] {
					Socket socket;

					for (int k = 0; k < test::scaled(20); k++) {
						const std::string text =
							std::to_string(i * 100 + k);

						ASSERT_EQ(0, sn_semaphore_acquire(&under_way));
						ASSERT_EQ(ssize_t(text.size()),
							  socket.send(text, to));
						ASSERT_EQ(text, socket.receive());
						ASSERT_EQ(0, sn_semaphore_release(&under_way, 1));
						// Reading the number is a system call that may
						// block.
						if (i == 0)
							most = std::max(most, threads());
					}
				});
			join_all(clients);
			// On a busy machine, one thread is added for each processor that the
			// monitor takes from a thread that does not run.
			EXPECT_LE(uint64_t(most),
				  uint64_t(processors) + 5 + test::stats().revocations);
			sn_udp_cancel(server.get());
			echo.join();
		});
}

} // namespace
