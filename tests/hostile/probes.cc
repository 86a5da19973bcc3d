// SPDX-License-Identifier: MIT
#include "hostile/probes.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hostile
{
namespace
{

class Probes : public Work
{
public:
	~Probes() override;
	void begin(Phase &phase) override;
	void end(Phase &phase) override;
	int64_t queue() const override { return 12 * piece; }

	// Called by plain threads.
	void poke();
	bool expect_signal();
	bool ask(void (*fn)())
	{
		void (*none)() = nullptr;

		return asked_.compare_exchange_strong(none, fn);
	}

private:
	void sleep(Random random);
	void wait_for_deadline(Random random);
	void yield();
	void read();
	void receive();
	void wait_for_signals();

	void start(std::function<void()> body);

	Phase *phase_ = nullptr;
	std::atomic<int> to_start_{0};
	Slot socket_{SOCKET}, foreign_{FOREIGN}, spawn_{SPAWN}, signal_{SIGNAL};
	std::atomic<bool> catching_{false}, closed_{false};
	std::atomic<void (*)()> asked_{nullptr};
	sn_chan *chan_ = nullptr;
	sn_tcp *reader_ = nullptr, *silent_ = nullptr;
	int writer_ = -1, silent_end_ = -1; // the ends that plain threads use
	uint64_t poked_ = 0, spawned_ = 0;  // only the plain thread writes these
	std::atomic<uint64_t> received_{0}, ran_{0}, bytes_written_{0}, bytes_read_{0};
};

std::mutex current_lock; // held while a plain thread uses the probes
Probes *current;

// Makes a connection over loopback between a plain socket and a connection of the runtime. Returns
// false if limits forbid it.
bool try_connection(sn_tcp **mine, int *plain)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in address = {};
	socklen_t size = sizeof address;
	sn_tcp_listener *listener;

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, 1) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) < 0 ||
	    sn_tcp_listener_adopt(&listener, fd) < 0) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	*plain = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const bool connected = connect(*plain, (struct sockaddr *)&address, size) == 0 &&
			       sn_tcp_accept(listener, mine) == 0;
	sn_tcp_listener_close(listener);
	if (!connected && *plain >= 0)
		close(*plain);
	return connected;
}

void connection(sn_tcp **mine, int *plain)
{
	uint64_t mark;

	while (mark = limits_mark(), !try_connection(mine, plain)) {
		refused(LOAD_PROBES, "making a connection", -errno, mark);
		sn_sleep(5 * ms);
	}
}

void Probes::begin(Phase &phase)
{
	phase_ = &phase;
	chan_ = make_channel(0, 1);
	connection(&reader_, &writer_);
	connection(&silent_, &silent_end_);
	for (int i = 0; i < 4; i++)
		start([this, seed = phase.random.next()] { sleep(Random(seed)); });
	start([this, seed = phase.random.next()] { wait_for_deadline(Random(seed)); });
	start([this] { yield(); });
	start([this] { read(); });
	start([this] { receive(); });
	start([this] { wait_for_signals(); });
	start([this] {
		// Until no thread can ask for anything any more.
		while (!closed_ || asked_.load()) {
			if (void (*fn)() = asked_.load()) {
				fn();
				asked_ = nullptr;
			}
			sn_sleep(2 * ms);
		}
	});
	// Waits until each has run once: while memory is limited, tasks may have to wait for their
	// stacks.
	while (to_start_ > 0)
		sn_sleep(ms);
	std::lock_guard hold(current_lock);
	// The phase may be over already, if beginning took long, or if gdb stopped everything.
	if (!closed_)
		current = this;
}

void Probes::start(std::function<void()> body)
{
	to_start_++;
	phase_->go_surely(LOAD_PROBES, [this, body = std::move(body)] {
		to_start_--;
		body();
	});
}

void Probes::end(Phase &)
{
	if (received_ != poked_)
		fail("probes: a plain thread sent %llu times, %llu were received",
		     (unsigned long long)poked_, (unsigned long long)received_.load());
	if (ran_ != spawned_)
		fail("probes: a plain thread spawned %llu tasks, %llu ran",
		     (unsigned long long)spawned_, (unsigned long long)ran_.load());
	if (bytes_read_ != bytes_written_)
		fail("probes: a plain thread wrote %llu bytes, %llu were read",
		     (unsigned long long)bytes_written_.load(),
		     (unsigned long long)bytes_read_.load());
}

Probes::~Probes()
{
	sn_chan_unref(chan_);
	if (silent_end_ >= 0)
		close(silent_end_);
}

void Probes::sleep(Random random)
{
	Slot slot(TIMER);

	while (!phase_->stopping()) {
		const int64_t ns = random.between(0, 15 * ms);
		const uint64_t mark = limits_mark();

		slot.expect(now() + ns);
		const int error = sn_sleep_until(sn_now() + ns);
		if (error < 0) {
			slot.drop();
			refused(LOAD_PROBES, "sn_sleep_until()", error, mark);
			continue;
		}
		if (slot.met() < 0)
			fail("a sleep ended too early");
		done(LOAD_PROBES);
	}
}

void Probes::wait_for_deadline(Random random)
{
	Slot slot(DEADLINE);
	char byte;

	while (!phase_->stopping()) {
		const int64_t ns = random.between(0, 30 * ms);
		const uint64_t mark = limits_mark();

		slot.expect(now() + ns);
		sn_tcp_set_read_deadline(silent_, sn_now() + ns);
		const ssize_t n = sn_tcp_read(silent_, &byte, 1);
		if (n == -ETIMEDOUT) {
			if (slot.met() < 0)
				fail("a read ended before its deadline");
		} else {
			slot.drop();
			refused(LOAD_PROBES, "reading", n < 0 ? (int)n : -EIO, mark);
		}
	}
	sn_tcp_close(silent_);
}

void Probes::yield()
{
	Slot slot(RUNNABLE);

	while (!phase_->stopping()) {
		slot.expect(now());
		sn_yield();
		slot.met();
		sn_sleep(3 * ms);
	}
}

void Probes::read()
{
	char bytes[64];
	ssize_t n;

	// Until receive() closes the plain end, when the phase is over.
	while ((n = sn_tcp_read(reader_, bytes, sizeof bytes)) > 0) {
		bytes_read_ += (uint64_t)n;
		if (socket_.expected())
			socket_.met();
	}
	if (n < 0)
		fail("probes: reading failed: %s", strerror((int)-n));
	sn_tcp_close(reader_);
}

void Probes::receive()
{
	while (!phase_->stopping()) {
		const uint64_t mark = limits_mark();
		const int error = sn_chan_recv_until(chan_, nullptr, sn_now() + 20 * ms);

		if (error == 0) {
			received_++;
			foreign_.met();
		} else if (error != -ETIMEDOUT) {
			refused(LOAD_PROBES, "receiving", error, mark);
		}
	}
	{
		std::lock_guard hold(current_lock);

		current = nullptr;
		closed_ = true;
	}
	// Values that were sent earlier are still in the channel.
	while (sn_chan_try_recv(chan_, nullptr) == 0) {
		received_++;
		foreign_.met();
	}
	while (ran_ != spawned_)
		sn_sleep(ms);
	close(writer_);
}

void Probes::wait_for_signals()
{
	for (int signum : {SIGUSR1, SIGCHLD}) {
		uint64_t mark;
		int error;

		// The first sn_signal_catch() takes a descriptor.
		while (mark = limits_mark(), (error = sn_signal_catch(signum)) < 0) {
			refused(LOAD_PROBES, "sn_signal_catch()", error, mark);
			sn_sleep(5 * ms);
		}
	}
	catching_ = true;
	for (;;) {
		const uint64_t mark = limits_mark();
		const int got = sn_signal_wait(sn_now() + 50 * ms);

		if (got == SIGUSR1) {
			if (signal_.expected())
				signal_.met();
		} else if (got == -ETIMEDOUT) {
			if (phase_->stopping()) {
				std::lock_guard hold(current_lock);

				catching_ = false;
				if (!signal_.expected())
					break;
			}
		} else if (got != SIGCHLD) {
			refused(LOAD_PROBES, "sn_signal_wait()", got, mark);
		}
	}
}

void Probes::poke()
{
	if (!socket_.expected()) {
		socket_.expect(now());
		// The reader may have closed its end when the phase ended.
		if (send(writer_, "x", 1, MSG_NOSIGNAL) == 1)
			bytes_written_++;
		else
			socket_.drop();
	}
	if (!foreign_.expected()) {
		foreign_.expect(now());
		if (sn_chan_try_send(chan_, nullptr) == 0)
			poked_++;
		else
			foreign_.drop();
	}
	if (!spawn_.expected()) {
		const uint64_t mark = limits_mark();

		spawn_.expect(now());
		spawned_++;
		const int error = sn_go(
			[](void *arg) {
				Probes *self = static_cast<Probes *>(arg);

				self->spawn_.met();
				self->ran_++;
				return 0;
			},
			this);
		if (error < 0) {
			spawned_--;
			spawn_.drop();
			refused(LOAD_PROBES, "sn_go()", error, mark);
		}
	}
}

bool Probes::expect_signal()
{
	if (!catching_ || signal_.expected())
		return false;
	signal_.expect(now());
	return true;
}

} // namespace

void probes_start()
{
	std::thread([] {
		prctl(PR_SET_NAME, "prober");
		for (;;) {
			usleep(3000);
			std::lock_guard hold(current_lock);
			if (current)
				current->poke();
		}
	}).detach();
}

bool probes_expect_signal()
{
	std::lock_guard hold(current_lock);

	return current && current->expect_signal();
}

bool probes_ask(void (*fn)())
{
	std::lock_guard hold(current_lock);

	return current && current->ask(fn);
}

std::unique_ptr<Work> make_probes()
{
	return std::make_unique<Probes>();
}

} // namespace hostile
