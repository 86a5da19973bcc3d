// SPDX-License-Identifier: MIT
//
// Messages: Unix sockets of both types that carry them, with descriptors, and UDP. Each message has
// a number, its size and a sum of its bytes. Those of a Unix socket arrive once, in the order in
// which they were sent; those of UDP at most once, and all of them as long as senders keep no more
// under way than the receive buffer holds. A receiver with too little room learns what was cut off.
// A descriptor that arrives is the one that was sent with its message.
#include "io/descriptors/play.h"
#include "support/udp.h"
#include "support/unix.h"

namespace oracle
{
namespace
{

struct Header {
	uint64_t play;
	uint32_t sender, number, size;
	uint32_t fds; // how many descriptors accompany the message
	uint64_t sum; // the sum of all bytes after the header
};

constexpr size_t most_bytes = 600;

uint64_t sum_of(const char *bytes, size_t size)
{
	uint64_t sum = 14695981039346656037u;

	for (size_t i = 0; i < size; i++)
		sum = (sum ^ uint8_t(bytes[i])) * 1099511628211u;
	return sum;
}

// Returns a message's bytes, which are drawn when it is first sent.
std::string compose(Random &random, Header header)
{
	std::string bytes(sizeof header + random.below(most_bytes), 0);

	for (size_t i = sizeof header; i < bytes.size(); i++)
		bytes[i] = char(random.next());
	header.size = uint32_t(bytes.size());
	header.sum = sum_of(bytes.data() + sizeof header, bytes.size() - sizeof header);
	memcpy(bytes.data(), &header, sizeof header);
	return bytes;
}

// The parts that are common to plays of both families.
class MessagePlayBase : public Play
{
protected:
	MessagePlayBase(const char *name, uint64_t seed, int most_senders)
	    : Play(name, seed), senders_(1 + int(random_.below(uint64_t(most_senders)))),
	      each_(1 + int(random_.below(60)))
	{
	}

	// Checks a message of which `room` bytes have arrived, and sets its header. `length` is its
	// whole length as the call reports it, or 0 if the call does not. Returns false if another
	// play had sent the message, to an address that was free again when it arrived.
	bool check(Header *header, const char *bytes, size_t room, size_t length)
	{
		memcpy(header, bytes, sizeof *header);
		if (header->play != seed())
			return false;
		EXPECT_LT(header->sender, uint32_t(senders_)) << where();
		EXPECT_LT(header->number, uint32_t(each_)) << where();
		if (length) {
			EXPECT_EQ(header->size, length) << where();
		}
		if (header->size <= room) {
			EXPECT_EQ(header->sum,
				  sum_of(bytes + sizeof *header, header->size - sizeof *header))
				<< where() << "wrong bytes";
		}
		return header->sender < uint32_t(senders_) && header->number < uint32_t(each_);
	}

	// Waits for a socket to become ready. Returns false when the task has to end.
	bool wait_for(Random &random, Gate &gate, int fd, int events, const Reasons &why,
		      bool alone)
	{
		const int64_t deadline = alone && random.below(2)
						 ? SN_NO_DEADLINE
						 : sn_now() + some_time(random) / 4;

		return wait(random, gate, fd, events, why, deadline, alone) != again;
	}

	const int senders_, each_; // of each sender
};

// ---- Unix sockets ----

// A descriptor to be sent, by which the receiver can recognize that it is the right one.
int make_token(Random &random, uint64_t token)
{
	int ends[2];

	// qemu-user does not convert the counter of an eventfd that was received from a socket.
	if (!TEST_SWAPPED && random.below(2))
		return eventfd(unsigned(token), EFD_CLOEXEC | EFD_NONBLOCK);
	EXPECT_EQ(0, pipe2(ends, O_CLOEXEC));
	EXPECT_EQ(ssize_t(sizeof token), write(ends[1], &token, sizeof token));
	close(ends[1]);
	return ends[0];
}

uint64_t token_of(const Header &header, int which)
{
	return 1 + header.number * 8 + uint64_t(which);
}

class UnixPlay : public MessagePlayBase
{
public:
	explicit UnixPlay(uint64_t seed)
	    : MessagePlayBase("Unix messages", seed, 3), packets_(random_.below(2) == 0),
	      counts_(packets_ ? 1 : senders_), next_(size_t(counts_)), sent_(size_t(counts_))
	{
	}

private:
	struct End {
		sn_unix *socket = nullptr;
		Reasons why;
		Gate gate;
	};

	void open() override
	{
		sn_unix *pair[2] = {};
		char text[SN_UNIX_ADDRESS_MAX];

		if (packets_) {
			if (random_.below(2)) {
				EXPECT_EQ(0, sn_unix_pair(pair, SN_UNIX_SEQPACKET)) << where();
			} else {
				adopt_pair(pair);
			}
			receiver_.socket = pair[0];
			from_[0].socket = pair[1];
			return;
		}
		EXPECT_EQ(0, sn_unix_bind(&receiver_.socket, "@", nullptr)) << where();
		EXPECT_LT(0, sn_unix_local_address(receiver_.socket, text, sizeof text));
		address_ = text;
		for (int i = 0; i < counts_; i++)
			if (i % 2) {
				EXPECT_EQ(0, sn_unix_bind(&from_[i].socket, nullptr, nullptr));
			} else {
				EXPECT_EQ(0, sn_unix_connect(&from_[i].socket, text,
							     SN_UNIX_DATAGRAM, SN_NO_DEADLINE));
			}
	}

	void adopt_pair(sn_unix *pair[2])
	{
		int fds[2];

		EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds));
		for (int i = 0; i < 2; i++)
			EXPECT_EQ(0, sn_unix_adopt(&pair[i], fds[i])) << where();
	}

	void start() override
	{
		for (int i = 0; i < counts_; i++)
			go([this, i](Random &random) { send_all(random, i); });
		go([this](Random &random) { receive_all(random); });
		if (random_.below(2))
			go([this](Random &random) {
				for (int i = 0; i < 5 && !sn_cancelled(); i++)
					if (receiver_.gate.enter() &&
					    !wait_for(random, receiver_.gate,
						      sn_unix_fd(receiver_.socket), POLLIN,
						      receiver_.why, false))
						return;
			});
	}

	// ---- sending ----

	void send_all(Random &random, int sender)
	{
		for (int i = 0; i < each_; i++) {
			Header header = {seed(), uint32_t(sender), uint32_t(i), 0, 0, 0};

			header.fds = random.below(3) ? 0 : uint32_t(1 + random.below(4));
			const std::string bytes = compose(random, header);
			std::vector<int> fds;
			for (uint32_t k = 0; k < header.fds; k++)
				fds.push_back(make_token(random, token_of(header, int(k))));
			const bool goes = send_one(random, from_[sender], bytes, fds,
						   !packets_ && sender % 2);
			for (const int each : fds)
				EXPECT_EQ(0, close(each));
			if (!goes)
				return;
			sent_[size_t(sender)]++;
			dally(random);
		}
		if (packets_)
			shut_down();
	}

	void shut_down()
	{
		ended_ = true;
		const int err = sn_unix_shutdown(from_[0].socket, SN_SHUT_WRITE);

		count();
		EXPECT_TRUE(err == 0 || (err == -EBADF && from_[0].why.closed) ||
			    (err == -ENOTCONN && from_[0].why.peer_gone))
			<< where() << err;
	}

	// Repeats until the message is sent, or cannot be sent.
	bool send_one(Random &random, End &from, const std::string &bytes, std::vector<int> &fds,
		      bool addressed)
	{
		struct sn_unix_message message = {};
		ssize_t n;

		message.data = const_cast<char *>(bytes.data());
		message.size = bytes.size();
		message.fds = fds.data();
		message.fd_count = int(fds.size());
		message.to = addressed ? address_.c_str() : nullptr;
		do {
			const int64_t deadline = some_deadline(random);

			if (deadline)
				sn_unix_set_write_deadline(from.socket, deadline);
			n = call(random, [&] { return sn_unix_send(from.socket, &message); });
			if (deadline)
				sn_unix_set_write_deadline(from.socket, SN_NO_DEADLINE);
			if (n < 0 && n != again && !expected(n, from.why, deadline, "send"))
				return false;
		} while (n < 0 && goes_on(n));
		if (n >= 0) {
			EXPECT_EQ(ssize_t(bytes.size()), n) << where();
		}
		return n >= 0;
	}

	// ---- receiving ----

	bool all_arrived() const
	{
		return std::all_of(next_.begin(), next_.end(),
				   [this](int each) { return each == each_; });
	}

	void receive_all(Random &random)
	{
		std::string bytes(sizeof(Header) + most_bytes, 0);

		// A stream of datagrams has no end, so the loop counts them.
		while (packets_ || !all_arrived()) {
			const bool small = random.below(8) == 0;
			int fds[4];
			struct sn_unix_message message = {};

			if (random.below(8) == 0 && receiver_.gate.enter() &&
			    !wait_for(random, receiver_.gate, sn_unix_fd(receiver_.socket), POLLIN,
				      receiver_.why, true))
				return;
			message.data = bytes.data();
			message.size = small ? sizeof(Header) : bytes.size();
			message.fds = fds;
			message.fd_count = random.below(8) ? 4 : int(random.below(4));
			if (!receive_one(random, message))
				return;
			dally(random);
		}
	}

	bool receive_one(Random &random, struct sn_unix_message &message)
	{
		const size_t room = message.size;
		const int fd_room = message.fd_count;
		const int64_t deadline = some_deadline(random);

		if (deadline)
			sn_unix_set_read_deadline(receiver_.socket, deadline);
		const ssize_t n =
			call(random, [&] { return sn_unix_recv(receiver_.socket, &message); });
		if (deadline)
			sn_unix_set_read_deadline(receiver_.socket, SN_NO_DEADLINE);
		if (n == 0) {
			check_end();
			return false;
		}
		if (n == -EMSGSIZE || n > 0) {
			check_arrived(random, message, n, room, fd_room);
			return true;
		}
		return (n == again || expected(n, receiver_.why, deadline, "receive")) &&
		       goes_on(n);
	}

	void check_arrived(Random &random, struct sn_unix_message &message, ssize_t n, size_t room,
			   int fd_room)
	{
		Header header;

		if (!check(&header, static_cast<const char *>(message.data), room,
			   message.length)) {
			for (int i = 0; i < message.fd_count; i++)
				EXPECT_EQ(0, close(message.fds[i]));
			return;
		}
		const bool fits = header.size <= room && int(header.fds) <= fd_room;

		EXPECT_EQ(uint32_t(next_[header.sender]++), header.number)
			<< where() << "lost, repeated or out of order";
		EXPECT_EQ(fits ? ssize_t(header.size) : -EMSGSIZE, n) << where();
		EXPECT_EQ(fits ? int(header.fds) : 0, message.fd_count) << where();
		// The descriptors have to be checked and closed in any case.
		EXPECT_EQ(0, sn_cancel_mask());
		for (int i = 0; i < message.fd_count; i++)
			check_token(random, message.fds[i], token_of(header, i));
		EXPECT_EQ(0, sn_cancel_unmask());
	}

	void check_token(Random &random, int fd, uint64_t token)
	{
		uint64_t found = 0;

		EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC) << where();
		count();
		if (random.below(2)) {
			EXPECT_EQ(POLLIN,
				  sn_fd_wait(fd, POLLIN, sn_now() + test::patience) & POLLIN)
				<< where();
		}
		if (random.below(2)) {
			EXPECT_EQ(ssize_t(sizeof found), read(fd, &found, sizeof found)) << where();
			EXPECT_EQ(0, close(fd));
		} else {
			sn_stream *stream = nullptr;

			EXPECT_EQ(0, sn_stream_adopt(&stream, fd)) << where();
			EXPECT_EQ(ssize_t(sizeof found),
				  sn_stream_read_full(stream, &found, sizeof found, nullptr))
				<< where();
			EXPECT_EQ(0, sn_stream_close(stream)) << where();
		}
		EXPECT_EQ(token, found) << where() << "another's descriptor";
	}

	void check_end()
	{
		EXPECT_TRUE(packets_ && ended_)
			<< where() << "an end of the stream, though no peer has ended it";
		EXPECT_LE(sent_[0], next_[0]) << where() << "messages are lost";
	}

	// ---- the end ----

	void close_end(End &end)
	{
		if (end.why.closed.exchange(true))
			return;
		for (End &each : from_)
			each.why.peer_gone = each.why.peer_gone || &end == &receiver_;
		if (&end != &receiver_) {
			receiver_.why.peer_gone = packets_;
			ended_ = true;
		}
		EXPECT_TRUE(end.gate.close(sn_unix_fd(end.socket))) << where();
		EXPECT_EQ(0, sn_unix_close(end.socket)) << where();
		count();
		EXPECT_TRUE(end.gate.left()) << where() << "the close has not ended all waits";
	}

	void break_it() override
	{
		const bool both = random_.below(2) == 0;

		if (both || packets_)
			close_end(from_[0]);
		if (random_.below(4) == 0) {
			receiver_.why.cancelled = true;
			EXPECT_EQ(0, sn_unix_cancel(receiver_.socket)) << where();
		}
		sn_sleep(some_time(random_) / 4);
		close_end(receiver_);
	}

	void finish() override
	{
		close_end(receiver_);
		for (int i = 0; i < counts_; i++) {
			close_end(from_[i]);
			EXPECT_LE(next_[size_t(i)], each_) << where();
			if (orderly()) {
				EXPECT_EQ(each_, next_[size_t(i)])
					<< where() << "messages are lost";
			}
		}
	}

	const bool packets_;
	const int counts_;      // of senders
	std::vector<int> next_; // the next number of each sender; written by the receiver
	std::vector<std::atomic<int>> sent_;
	std::atomic<bool> ended_{false};
	std::string address_;
	End receiver_, from_[3];
};

// ---- UDP ----

class UdpPlay : public MessagePlayBase
{
public:
	explicit UdpPlay(uint64_t seed)
	    : MessagePlayBase("UDP", seed, 3), receivers_(1 + int(random_.below(3))),
	      arrived_(size_t(senders_ * each_))
	{
	}

private:
	// How many datagrams a sender may have under way; they take at most 2 KiB of the receive
	// buffer.
	static constexpr int window = 8;

	struct From {
		sn_udp *udp = nullptr;
		bool connected = false;
		Reasons why;
		sn_semaphore room = SN_SEMAPHORE_INIT(window);
	};

	void open() override
	{
		if (random_.below(2)) {
			EXPECT_EQ(0, sn_udp_open(&udp_, "127.0.0.1:0", nullptr)) << where();
		} else {
			EXPECT_EQ(0, sn_udp_adopt(&udp_, plain_socket(SOCK_DGRAM), nullptr))
				<< where();
		}
		EXPECT_EQ(0, sn_udp_local(udp_, &address_)) << where();
		for (int i = 0; i < senders_; i++) {
			From &from = from_[i];

			EXPECT_EQ(0, sn_udp_open(&from.udp, "127.0.0.1:0", nullptr)) << where();
			from.connected = random_.below(2) == 0;
			if (from.connected) {
				EXPECT_EQ(0, sn_udp_set_peer(from.udp, &address_)) << where();
			}
			// A message that is sent after the receiver was closed may be refused.
			from.why.peer_gone = !orderly();
		}
	}

	void start() override
	{
		for (int i = 0; i < senders_; i++)
			go([this, i](Random &random) { send_all(random, i); });
		for (int i = 0; i < receivers_; i++)
			go([this](Random &random) { receive_all(random); });
		if (random_.below(2))
			go([this](Random &random) { disturb(random); });
	}

	void send_all(Random &random, int sender)
	{
		From &from = from_[sender];

		for (int i = 0; i < each_; i++) {
			const Header header = {seed(), uint32_t(sender), uint32_t(i), 0, 0, 0};
			const std::string bytes = compose(random, header);
			const int err =
				sn_semaphore_acquire_until(&from.room, sn_now() + test::patience);

			if (err == -ETIMEDOUT && orderly()) {
				ADD_FAILURE() << where() << "datagrams are lost";
			}
			if (err < 0 || !send_one(random, from, bytes))
				return;
			dally(random);
		}
	}

	bool send_one(Random &random, From &from, const std::string &bytes)
	{
		struct sn_udp_message message = {};
		ssize_t n;

		message.data = const_cast<char *>(bytes.data());
		message.size = bytes.size();
		if (!from.connected)
			message.peer = address_;
		do {
			const bool alone = random.below(2);

			n = call(random, [&]() -> ssize_t {
				return alone ? sn_udp_send(from.udp, bytes.data(), bytes.size(),
							   from.connected ? nullptr : &address_)
					     : sn_udp_send_messages(from.udp, &message, 1);
			});
			if (n < 0 && n != again && !expected(n, from.why, 0, "send"))
				return false;
			if (n >= 0) {
				EXPECT_EQ(alone ? ssize_t(bytes.size()) : 1, n) << where();
			}
		} while (n < 0 && goes_on(n));
		return n >= 0;
	}

	void receive_all(Random &random)
	{
		std::vector<std::string> room(4, std::string(sizeof(Header) + most_bytes, 0));

		while (total_ < senders_ * each_) {
			if (random.below(8) == 0 && gate_.enter() &&
			    !wait_for(random, gate_, sn_udp_fd(udp_), POLLIN, why_,
				      receivers_ == 1))
				return;
			const int64_t deadline = some_deadline(random);
			if (deadline) {
				// The deadline applies to all of them.
				note_earliest(deadline);
				sn_udp_set_read_deadline(udp_, deadline);
			}
			const ssize_t n = random.below(2) ? receive_one(random, room[0])
							  : receive_some(random, room);
			if (deadline)
				sn_udp_set_read_deadline(udp_, SN_NO_DEADLINE);
			if (n < 0 && ((n != again && !expected(n, why_, deadline, "receive")) ||
				      !goes_on(n)))
				return;
			dally(random);
		}
		// The other receivers wait for datagrams that do not come.
		why_.cancelled = true;
		const int err = sn_udp_cancel(udp_);
		EXPECT_TRUE(err == 0 || (err == -EBADF && why_.closed)) << where() << err;
		count();
	}

	void note_earliest(int64_t deadline)
	{
		int64_t earliest = why_.earliest;

		while (deadline < earliest &&
		       !why_.earliest.compare_exchange_weak(earliest, deadline))
			continue;
	}

	ssize_t receive_one(Random &random, std::string &bytes)
	{
		const size_t room = random.below(8) ? bytes.size() : sizeof(Header);
		struct sn_address peer;
		const ssize_t n =
			call(random, [&] { return sn_udp_recv(udp_, bytes.data(), room, &peer); });

		if (n < 0 && n != -EMSGSIZE)
			return n;
		Header header;

		if (check(&header, bytes.data(), room, n < 0 ? 0 : size_t(n))) {
			EXPECT_EQ(header.size > room, n < 0) << where() << "cut";
			arrived(header, peer);
		}
		return 0;
	}

	ssize_t receive_some(Random &random, std::vector<std::string> &room)
	{
		struct sn_udp_message messages[4] = {};
		const size_t most = 1 + random.below(4);

		for (size_t i = 0; i < most; i++) {
			messages[i].data = room[i].data();
			messages[i].size = random.below(8) ? room[i].size() : sizeof(Header);
		}
		const ssize_t n =
			call(random, [&] { return sn_udp_recv_messages(udp_, messages, most); });
		EXPECT_NE(0, n) << where();
		for (ssize_t i = 0; i < n; i++) {
			const auto &each = messages[i];
			Header header;

			if (!check(&header, room[size_t(i)].data(), each.size, each.length))
				continue;
			EXPECT_EQ(header.size > each.size, (each.flags & SN_UDP_TRUNCATED) != 0)
				<< where() << "cut";
			arrived(header, each.peer);
		}
		return std::min<ssize_t>(n, 0);
	}

	void arrived(const Header &header, const struct sn_address &peer)
	{
		From &from = from_[header.sender];
		struct sn_address its = {};

		EXPECT_EQ(0, arrived_[header.sender * size_t(each_) + header.number]++)
			<< where() << "a datagram has come twice";
		if (sn_udp_local(from.udp, &its) == 0) {
			EXPECT_EQ(test::text(its), test::text(peer)) << where();
		}
		EXPECT_EQ(0, sn_semaphore_release(&from.room, 1));
		total_++;
	}

	void disturb(Random &random)
	{
		for (int i = 0; i < 10 && !sn_cancelled(); i++) {
			if (random.below(4) == 0) {
				const int64_t soon = sn_now() + some_time(random) / 4;

				note_earliest(soon);
				const int err = sn_udp_set_read_deadline(udp_, soon);
				EXPECT_TRUE(err == 0 || (err == -EBADF && why_.closed)) << where();
				count();
			}
			if (gate_.enter() &&
			    !wait_for(random, gate_, sn_udp_fd(udp_), POLLIN, why_, false))
				return;
		}
	}

	void close_all()
	{
		if (why_.closed.exchange(true))
			return;
		EXPECT_TRUE(gate_.close(sn_udp_fd(udp_))) << where() << "waits do not park";
		EXPECT_EQ(0, sn_udp_close(udp_)) << where();
		count();
		EXPECT_TRUE(gate_.left()) << where() << "the close has not ended all waits";
	}

	void break_it() override
	{
		close_all();
		for (int i = 0; i < senders_; i++) {
			// Wakes the senders that wait for the receivers.
			EXPECT_EQ(0, sn_semaphore_release(&from_[i].room, each_));
		}
	}

	void finish() override
	{
		char byte;

		close_all();
		EXPECT_EQ(-EBADF, sn_udp_recv(udp_, &byte, 1, nullptr)) << where();
		for (int i = 0; i < senders_; i++)
			EXPECT_EQ(0, sn_udp_close(from_[i].udp)) << where();
		for (const auto &each : arrived_)
			if (orderly()) {
				EXPECT_EQ(1, each) << where() << "a datagram is lost";
			}
	}

	const int receivers_;
	std::vector<std::atomic<int>> arrived_;
	std::atomic<int> total_{0};
	sn_udp *udp_ = nullptr;
	struct sn_address address_ = {};
	Reasons why_;
	Gate gate_;
	From from_[3];
};

} // namespace

std::unique_ptr<Play> make_message_play(uint64_t seed)
{
	return std::make_unique<UnixPlay>(seed);
}

std::unique_ptr<Play> make_datagram_play(uint64_t seed)
{
	return std::make_unique<UdpPlay>(seed);
}

} // namespace oracle
