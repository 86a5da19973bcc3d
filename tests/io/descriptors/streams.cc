// SPDX-License-Identifier: MIT
//
// Streams of bytes: TCP and Unix connections, and adopted pipes, socketpairs and terminals. Tasks
// write and read at both ends, wait for the numbers, set deadlines and begin operations beside each
// other, and an end is closed, reset or cancelled under them. Sometimes a reader passes its
// descriptor over a Unix socket and continues with the one that arrives. Some bytes of a Unix
// connection are accompanied by descriptors.
//
// Every byte is the one that was written at its place. If no end was closed early, all bytes
// arrive, and then the end of the stream. After a close, the bytes in the kernel still arrive,
// except over TCP, where a reset may discard them.
#include <termios.h>

#include "io/descriptors/play.h"
#include "support/net.h"

namespace oracle
{
namespace
{

enum class Kind { tcp, unix_connection, socketpair, pipe, terminal };

class StreamPlay : public Play
{
public:
	explicit StreamPlay(uint64_t seed)
	    : Play("stream", seed), kind_(Kind(random_.below(5))),
	      directions_(kind_ == Kind::pipe ? 1 : 1 + int(random_.below(2))),
	      moves_(kind_ != Kind::tcp && kind_ != Kind::terminal && directions_ == 1 &&
		     orderly() && random_.below(2) == 0),
	      flows_{Flow(random_.below(Flow::period), size()),
		     Flow(random_.below(Flow::period), size())}
	{
		for (Tokens &each : tokens_)
			each.all_wanted = random_.below(2);
	}

private:
	struct End {
		std::atomic<sn_stream *> stream{nullptr};
		std::atomic<bool> closing{false};
		Reasons why;
		Gate gate;
	};

	// The descriptors that accompany a flow; each of them has a number.
	struct Tokens {
		bool all_wanted = false; // the reader always takes them
		unsigned made = 0;       // written by the writer
		unsigned last = 0;       // written by the reader
		std::atomic<int> sent{0}, taken{0};
	};

	// The kernel buffers a terminal's data and moves it later, and a close may discard it. The
	// play sends so little that the terminal is never full.
	uint64_t size()
	{
		if (kind_ == Kind::terminal)
			return random_.below(3000);
		return random_.below(4) ? random_.below(20000) : random_.below(600000);
	}

	// ---- opening ----

	sn_stream *adopt(int fd)
	{
		sn_stream *stream = nullptr;

		count();
		EXPECT_EQ(0, sn_stream_adopt(&stream, fd)) << where();
		return stream;
	}

	void open() override
	{
		open_ends();
		for (const End &end : ends_)
			if (kind_ != Kind::pipe && kind_ != Kind::terminal && random_.below(2))
				make_small(end);
	}

	void open_ends()
	{
		sn_unix *pair[2] = {};
		int fds[2] = {-1, -1};

		switch (kind_) {
		case Kind::tcp:
			return open_tcp();
		case Kind::unix_connection:
			EXPECT_EQ(0, sn_unix_pair(pair, SN_UNIX_STREAM)) << where();
			ends_[0].stream = sn_unix_stream(pair[0]);
			ends_[1].stream = sn_unix_stream(pair[1]);
			return;
		case Kind::socketpair:
			EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
			break;
		case Kind::pipe:
			EXPECT_EQ(0, pipe2(fds, O_CLOEXEC));
			std::swap(fds[0], fds[1]);
			break;
		case Kind::terminal:
			open_terminal(fds);
			break;
		}
		for (int i = 0; i < 2; i++)
			ends_[i].stream = adopt(fds[i]);
	}

	void open_tcp()
	{
		test::Pair pair;

		ends_[0].stream = sn_tcp_stream(pair.release_client());
		ends_[1].stream = sn_tcp_stream(pair.release_server());
	}

	// Small buffers, so that a write takes only some of the bytes. TCP would stall with less.
	void make_small(const End &end)
	{
		const int smallest = kind_ == Kind::tcp ? 15 : 12;
		const int size = 1 << (smallest + int(random_.below(4)));

		for (const int which : {SO_RCVBUF, SO_SNDBUF})
			EXPECT_EQ(0, setsockopt(sn_stream_fd(end.stream), SOL_SOCKET, which, &size,
						sizeof size));
	}

	// A container may have no terminals; a pair of sockets replaces it then.
	static void open_terminal(int fds[2])
	{
		struct termios raw;
		char name[64];

		fds[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
		if (fds[0] >= 0 && grantpt(fds[0]) == 0 && unlockpt(fds[0]) == 0 &&
		    ptsname_r(fds[0], name, sizeof name) == 0)
			fds[1] = ::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
		if (fds[1] >= 0 && tcgetattr(fds[1], &raw) == 0) {
			cfmakeraw(&raw);
			EXPECT_EQ(0, tcsetattr(fds[1], TCSANOW, &raw));
			return;
		}
		if (fds[0] >= 0)
			::close(fds[0]);
		EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
	}

	// ---- the tasks ----

	void start() override
	{
		for (int i = 0; i < directions_; i++) {
			go([this, i](Random &random) { write_flow(random, flows_[i], i); });
			go([this, i](Random &random) { read_flow(random, flows_[i], 1 - i); });
		}
		if (moves_)
			return;
		for (uint64_t i = random_.below(3); i > 0; i--)
			go([this](Random &random) { disturb(random); });
	}

	int side_of(const End &end) const { return &end == &ends_[1]; }

	// Waits until the end is ready, or for a short time. Returns false when the task has to
	// end.
	bool wait_for(Random &random, End &end, int events, bool alone)
	{
		if (!end.gate.enter())
			return true;
		const int fd = sn_stream_fd(end.stream);

		// The gate keeps the end open, unless it was closed before the gate was entered.
		if (fd < 0) {
			EXPECT_EQ(-EBADF, fd);
			EXPECT_TRUE(end.why.closed) << where();
			end.gate.leave();
			return true;
		}
		const int64_t deadline =
			random.below(2) ? SN_NO_DEADLINE : sn_now() + some_time(random) / 4;
		// The end of a terminal's stream is not reported. TCP may use up room by itself.
		const bool forever = alone && kind_ != Kind::terminal;
		const bool certain = alone && (kind_ != Kind::tcp || events == POLLIN);

		return wait(random, end.gate, fd, events, end.why,
			    forever ? deadline : sn_now() + some_time(random) / 4,
			    certain) != again;
	}

	template <class Set>
	int64_t set_deadline(Random &random, End &end, Set set)
	{
		const int64_t deadline = some_deadline(random);

		if (deadline != SN_NO_DEADLINE || random.below(16) == 0) {
			const int err = set(end.stream, deadline);

			count();
			EXPECT_TRUE(err == 0 || (err == -EBADF && end.why.closed))
				<< where() << err;
		}
		return deadline;
	}

	void write_flow(Random &random, Flow &flow, int side)
	{
		static const size_t pieces[] = {1, 50, 1000, 5000, 40000};
		End &from = ends_[side];
		const size_t most = std::max(pieces[random.below(5)], size_t(flow.size / 100));

		while (flow.sent() < flow.size) {
			const size_t n = std::min({size_t(1 + random.below(most)),
						   size_t(flow.size - flow.sent()), Flow::period});

			if (random.below(8) == 0 && !wait_for(random, from, POLLOUT, true))
				return;
			const int64_t deadline =
				set_deadline(random, from, sn_stream_set_write_deadline);
			const ssize_t written = write_some(random, from, flow, n);
			if (deadline)
				sn_stream_set_write_deadline(from.stream, SN_NO_DEADLINE);
			if (written < 0 && (!expected_or_again(written, from, deadline, "write") ||
					    !goes_on(written)))
				return;
			dally(random);
		}
		end_flow(flow, from);
	}

	bool expected_or_again(ssize_t err, End &end, int64_t deadline, const char *what)
	{
		// A terminal whose other end was closed returns this error.
		if (kind_ == Kind::terminal && err == -EIO && end.why.peer_gone)
			return true;
		return err == again || expected(err, end.why, deadline, what);
	}

	// Writes by any of the calls.
	ssize_t write_some(Random &random, End &from, Flow &flow, size_t n)
	{
		char *bytes = const_cast<char *>(flow.handing(n));
		const size_t first = random.below(n + 1);
		const struct iovec both[] = {{bytes, first}, {bytes + first, n - first}};
		size_t done = 0;
		ssize_t written;

		switch (random.below(brings_descriptors() ? 4 : 3)) {
		case 3:
			written = send(random, from, flow, bytes, n);
			break;
		case 0:
			written = call(random,
				       [&] { return sn_stream_write(from.stream, bytes, n); });
			break;
		case 1:
			written = call(random,
				       [&] { return sn_stream_writev(from.stream, both, 2); });
			break;
		default:
			written = call(random, [&] {
				return sn_stream_writev_all(from.stream, both, 2, &done);
			});
			if (written >= 0) {
				EXPECT_EQ(ssize_t(n), written) << where();
			}
			flow.wrote(done);
			return written;
		}
		EXPECT_NE(0, written) << where();
		EXPECT_LE(written, ssize_t(n)) << where();
		if (written > 0)
			flow.wrote(size_t(written));
		return written;
	}

	bool brings_descriptors() const { return kind_ == Kind::unix_connection && !moves_; }
	Tokens &tokens_of(const Flow &flow) { return tokens_[&flow == &flows_[1]]; }

	// Sends some of the bytes, with descriptors.
	ssize_t send(Random &random, End &from, Flow &flow, char *bytes, size_t n)
	{
		Tokens &tokens = tokens_of(flow);
		struct sn_unix_message message = {};
		int fds[3];

		message.data = bytes;
		message.size = n;
		message.fds = fds;
		message.fd_count = 1 + int(random.below(3));
		for (int i = 0; i < message.fd_count; i++)
			fds[i] = eventfd(++tokens.made, EFD_CLOEXEC | EFD_NONBLOCK);
		const ssize_t written = call(random, [&] {
			return sn_unix_send((sn_unix *)from.stream.load(), &message);
		});
		if (written > 0)
			tokens.sent += message.fd_count;
		for (int i = 0; i < message.fd_count; i++)
			EXPECT_EQ(0, ::close(fds[i]));
		return written;
	}

	// Receives what is there, with its descriptors.
	ssize_t receive(Random &random, End &to, Flow &flow, std::string &room)
	{
		Tokens &tokens = tokens_of(flow);
		struct sn_unix_message message = {};
		int fds[3];

		message.data = room.data();
		message.size = room.size();
		message.fds = fds;
		message.fd_count = tokens.all_wanted ? 3 : int(random.below(4));
		ssize_t n = call(random, [&] {
			return sn_unix_recv((sn_unix *)to.stream.load(), &message);
		});
		if (n == -EMSGSIZE) {
			EXPECT_FALSE(tokens.all_wanted) << where();
			EXPECT_EQ(0, message.fd_count) << where();
			EXPECT_LE(message.length, room.size()) << where();
			n = ssize_t(message.length);
		}
		for (int i = 0; n > 0 && i < message.fd_count; i++) {
			eventfd_t token = 0;

			EXPECT_EQ(0, eventfd_read(fds[i], &token)) << where();
			EXPECT_LT(tokens.last, token) << where() << "descriptors out of order";
			tokens.last = unsigned(token);
			tokens.taken++;
			EXPECT_EQ(0, ::close(fds[i]));
		}
		return n;
	}

	void end_flow(Flow &flow, End &from)
	{
		flow.ended = true;
		if (kind_ == Kind::terminal)
			return;
		if (kind_ == Kind::pipe)
			return close(side_of(from), false);
		const int err = sn_stream_shutdown(from.stream, SN_SHUT_WRITE);
		count();
		EXPECT_TRUE(err == 0 || (err == -EBADF && from.why.closed) ||
			    (err == -ENOTCONN && from.why.peer_gone))
			<< where() << err;
	}

	void read_flow(Random &random, Flow &flow, int side)
	{
		End &to = ends_[side];
		std::string room(random.below(2) ? 65536 : 1 + random.below(3000) + flow.size / 100,
				 0);

		while (kind_ != Kind::terminal || flow.received() < flow.size) {
			if (moves_ && random.below(20) == 0)
				move(random, to);
			if (random.below(6) == 0 && !wait_for(random, to, POLLIN, true))
				return;
			const int64_t deadline =
				set_deadline(random, to, sn_stream_set_read_deadline);
			bool full = false;
			const ssize_t n = read_some(random, to, flow, room, &full);

			if (deadline)
				sn_stream_set_read_deadline(to.stream, SN_NO_DEADLINE);
			if (n == 0 || (full && n > 0 && n < ssize_t(room.size())))
				return check_end(flow, to);
			if (n < 0 && !expected_or_again(n, to, deadline, "read"))
				return;
			if (n == -ECONNRESET)
				check_loss(flow, to);
			if (n < 0 && !goes_on(n))
				return;
			dally(random);
		}
	}

	// Reads by any of the calls. Sets *full if fewer bytes than there was room for mean that
	// the stream has ended.
	ssize_t read_some(Random &random, End &to, Flow &flow, std::string &room, bool *full)
	{
		const size_t first = random.below(room.size() + 1);
		const struct iovec both[] = {{room.data(), first},
					     {room.data() + first, room.size() - first}};
		size_t done = 0;
		ssize_t n;

		const bool only_messages = brings_descriptors() && tokens_of(flow).all_wanted;

		// The end of a terminal's stream is not reported, so a call must not wait for bytes
		// that may not come.
		switch (only_messages             ? 3
			: brings_descriptors()    ? random.below(4)
			: kind_ == Kind::terminal ? random.below(2)
						  : random.below(3)) {
		case 3:
			n = receive(random, to, flow, room);
			break;
		case 0:
			n = call(random, [&] {
				return sn_stream_read(to.stream, room.data(), room.size());
			});
			break;
		case 1:
			n = call(random, [&] { return sn_stream_readv(to.stream, both, 2); });
			break;
		default:
			*full = true;
			n = call(random, [&] {
				return sn_stream_read_full(to.stream, room.data(), room.size(),
							   &done);
			});
			if (n >= 0) {
				EXPECT_EQ(done, size_t(n)) << where();
			}
			EXPECT_TRUE(flow.took(room.data(), done)) << where() << "wrong bytes";
			return n;
		}
		if (n > 0) {
			EXPECT_TRUE(flow.took(room.data(), size_t(n))) << where() << "wrong bytes";
		}
		return n;
	}

	// Called when the reader has seen the end.
	void check_end(Flow &flow, End &to)
	{
		EXPECT_TRUE(flow.ended)
			<< where() << "an end of the stream, though the writer has not ended it";
		if (orderly()) {
			EXPECT_EQ(flow.size, flow.received()) << where() << "bytes are lost";
			if (tokens_of(flow).all_wanted) {
				EXPECT_EQ(tokens_of(flow).sent, tokens_of(flow).taken)
					<< where() << "descriptors are lost";
			}
		} else {
			check_loss(flow, to);
		}
	}

	// Called when the other end was closed. Bytes that were sent before arrive, except over TCP
	// and in terminals.
	void check_loss(Flow &flow, End &to)
	{
		if (kind_ != Kind::tcp && kind_ != Kind::terminal && !to.why.closed) {
			EXPECT_LE(flow.sent(), flow.received()) << where() << "bytes are lost";
		}
	}

	// Sends the descriptor over a Unix socket, and continues with the one that arrives. The
	// original is closed at some moment in between.
	void move(Random &random, End &end)
	{
		const sn_unix_type types[] = {SN_UNIX_STREAM, SN_UNIX_SEQPACKET, SN_UNIX_DATAGRAM};
		const uint64_t when = random.below(3);
		sn_stream *former = end.stream;
		sn_unix *pair[2] = {};
		int fd = sn_stream_fd(former), moved = -1;
		char byte = 'm';
		struct sn_unix_message message = {};

		message.data = &byte;
		message.size = 1;
		message.fds = &fd;
		message.fd_count = 1;
		EXPECT_EQ(0, sn_cancel_mask());
		EXPECT_EQ(0, sn_unix_pair(pair, types[random.below(3)])) << where();
		EXPECT_EQ(1, sn_unix_send(pair[0], &message)) << where();
		if (when == 0) {
			EXPECT_EQ(0, sn_stream_close(former)) << where();
		}
		message.fds = &moved;
		EXPECT_EQ(1, sn_unix_recv(pair[1], &message)) << where();
		EXPECT_EQ(1, message.fd_count) << where();
		if (when == 1) {
			EXPECT_EQ(0, sn_stream_close(former)) << where();
		}
		end.stream = adopt(moved);
		if (when == 2) {
			EXPECT_EQ(0, sn_stream_close(former)) << where();
		}
		for (sn_unix *each : pair)
			EXPECT_EQ(0, sn_unix_close(each)) << where();
		EXPECT_EQ(0, sn_cancel_unmask());
		count();
	}

	// Waits, sets deadlines and begins operations while other tasks read and write.
	void disturb(Random &random)
	{
		for (uint64_t i = 5 + random.below(20); i > 0 && !sn_cancelled(); i--) {
			End &end = ends_[random.below(2)];
			char byte;

			switch (random.below(6)) {
			case 0:
				set_early(random, end);
				break;
			case 1:
				end.why.intruded = true;
				check_intrusion(end, call(random, [&] {
							return sn_stream_read(end.stream, &byte, 0);
						}));
				break;
			case 2:
				end.why.intruded = true;
				check_intrusion(end, call(random, [&] {
							return sn_stream_write(end.stream, &byte,
									       0);
						}));
				break;
			case 3:
				wait_for_copy(random, end);
				break;
			default:
				if (!wait_for(random, end, random.below(2) ? POLLIN : POLLOUT,
					      false))
					return;
			}
			sn_sleep(int64_t(random.below(200)) * us);
		}
	}

	void check_intrusion(End &end, ssize_t n)
	{
		// The deadline that the end's own task has set counts here, too.
		if (n < 0 && n != -ETIMEDOUT)
			expected_or_again(n, end, 1, "nothing");
	}

	void set_early(Random &random, End &end)
	{
		const int64_t deadline = sn_now() + int64_t(random.below(300)) * us;
		int64_t earliest = end.why.earliest;

		while (deadline < earliest &&
		       !end.why.earliest.compare_exchange_weak(earliest, deadline))
			continue;
		const int err = random.below(2)
					? sn_stream_set_read_deadline(end.stream, deadline)
					: sn_stream_set_write_deadline(end.stream, deadline);
		count();
		EXPECT_TRUE(err == 0 || (err == -EBADF && end.why.closed)) << where() << err;
	}

	// Waits for the same open file under another number, which is closed while sennit still has
	// its own number open, or afterwards.
	void wait_for_copy(Random &random, End &end)
	{
		if (!end.gate.enter())
			return;
		const int fd = sn_stream_fd(end.stream);
		const int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
		const Reasons none;

		end.gate.leave();
		if (copy < 0)
			return;
		const int64_t deadline = sn_now() + some_time(random) / 4;
		const int found = int(call(random, [&] {
			return sn_fd_wait(copy, random.below(2) ? POLLIN : POLLOUT, deadline);
		}));
		if (found < 0 && found != again)
			expected(found, none, deadline, "wait for a copy");
		EXPECT_EQ(0, sn_fd_closing(copy));
		EXPECT_EQ(0, ::close(copy));
	}

	// ---- the end ----

	// Closes an end, unless it is closed already, even if tasks use it. All waits for it then
	// end.
	void close(int side, bool aborts)
	{
		End &end = ends_[side];
		sn_stream *stream = end.stream;

		if (end.closing.exchange(true))
			return;
		ends_[1 - side].why.peer_gone = true;
		end.why.closed = true;
		flows_[side].ended = true;
		EXPECT_EQ(0, sn_cancel_mask());
		EXPECT_TRUE(end.gate.close(sn_stream_fd(stream))) << where() << "waits do not park";
		EXPECT_EQ(0, aborts ? sn_stream_abort(stream) : sn_stream_close(stream)) << where();
		count();
		EXPECT_TRUE(end.gate.left()) << where() << "the close has not ended all waits";
		EXPECT_EQ(0, sn_cancel_unmask());
	}

	void break_it() override
	{
		const int first = int(random_.below(2));

		if (random_.below(4) == 0) {
			for (End &end : ends_) {
				// If one side ends, the tasks of the other may be left without a
				// peer.
				end.why.cancelled = true;
				const int err = sn_stream_cancel(end.stream);

				count();
				EXPECT_TRUE(err == 0 || (err == -EBADF && end.why.closed))
					<< where() << err;
			}
		}
		close(first, random_.below(2) == 0);
		sn_sleep(some_time(random_) / 4);
		close(1 - first, random_.below(2) == 0);
	}

	void finish() override
	{
		close(0, false);
		close(1, false);
		for (End &end : ends_) {
			char byte;

			EXPECT_EQ(-EBADF, sn_stream_read(end.stream, &byte, 1)) << where();
			EXPECT_EQ(-EBADF, sn_stream_close(end.stream)) << where();
		}
	}

	const Kind kind_;
	const int directions_;
	const bool moves_;
	Flow flows_[2]; // flow N goes from end N to the other end
	Tokens tokens_[2];
	End ends_[2];
};

} // namespace

std::unique_ptr<Play> make_stream_play(uint64_t seed)
{
	return std::make_unique<StreamPlay>(seed);
}

} // namespace oracle
