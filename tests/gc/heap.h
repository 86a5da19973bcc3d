// SPDX-License-Identifier: MIT
//
// Shared by the tests of the collector bridge: lists on the collected heap. The tests notice when a
// list is collected. References to a list are hidden from the collector except where a test puts
// one.
#ifndef SENNIT_TESTS_GC_HEAP_H
#define SENNIT_TESTS_GC_HEAP_H

#include <atomic>
#include <cstdint>
#include <memory>

#define GC_THREADS 1
#include <gc/gc.h>
#include <sennit/gc.h>

#include "gc/blind.h"
#include "support/runtime.h"

namespace test
{

// A reference that the collector does not recognize.
using Hidden = uintptr_t;

inline Hidden hide(void *p)
{
	return ~reinterpret_cast<uintptr_t>(p);
}

// A list of three nodes. The first has a finalizer, which shows that the list was found to be
// garbage. Each has a checksum, which shows a reader that the memory is still the list's.
struct Node {
	Node *next;
	uint32_t id;
	uint32_t check;
};

constexpr uint32_t list_length = 3;

inline uint32_t checksum(uint32_t id, uint32_t place)
{
	return (id * list_length + place) * 2654435761u ^ 0x5eed;
}

// The lists that were made, and which of them were finalized. A finalizer may run after the test
// has ended, so the record that it writes to is never freed.
class Lists
{
	struct Record {
		explicit Record(uint32_t n) : finalized(new std::atomic<bool>[n]()) {}

		std::unique_ptr<std::atomic<bool>[]> finalized;
		std::atomic<uint32_t> made{0}, ended{0};
	};

public:
	explicit Lists(uint32_t most) : most_(most), record_(new Record(most)) {}
	Lists(const Lists &) = delete;
	Lists &operator=(const Lists &) = delete;

	// Leaves no plain reference behind, as far as the compiler allows.
	[[gnu::noinline]] Hidden make()
	{
		uint32_t id = record_->made.fetch_add(1);
		Node *head = nullptr;

		EXPECT_LT(id, most_);
		for (uint32_t i = 0; i < list_length; i++) {
			auto *node = static_cast<Node *>(GC_MALLOC(sizeof(Node)));

			if (!node)
				abort();
			*node = {head, id, checksum(id, i)};
			head = node;
		}
		GC_REGISTER_FINALIZER_NO_ORDER(
			head,
			[](void *object, void *arg) {
				auto *record = static_cast<Record *>(arg);

				record->finalized[static_cast<Node *>(object)->id] = true;
				record->ended++;
			},
			record_, nullptr, nullptr);
		Hidden hidden = hide(head);
		forget(head);
		return hidden;
	}

	// Whether the list is whole.
	[[gnu::noinline]] bool whole(const Node *head) const
	{
		uint32_t id = head->id;
		uint32_t place = list_length;

		if (id >= made() || record_->finalized[id])
			return false;
		for (; head; head = head->next)
			if (place == 0 || head->id != id || head->check != checksum(id, --place))
				return false;
		return place == 0;
	}
	bool whole(Hidden list) const { return whole(reinterpret_cast<Node *>(~list)); }

	uint32_t made() const { return record_->made; }
	uint32_t ended() const { return record_->ended; }

private:
	static void forget(Node *&head)
	{
		head = nullptr;
		__asm__ volatile("" : : "r"(&head) : "memory");
	}

	const uint32_t most_;
	Record *const record_;
};

// Collects several times, because one collection may find what another has left in a register or a
// dead frame.
[[gnu::noinline]] inline void collect()
{
	for (int i = 0; i < 3; i++)
		GC_gcollect();
	while (GC_should_invoke_finalizers())
		GC_invoke_finalizers();
}

// Connects the library. Finalizers run only in collect(), and children of fork() may collect.
inline void connect()
{
	GC_set_handle_fork(1);
	ASSERT_EQ(0, sn_gc_init());
	GC_set_finalize_on_demand(1);
}

// While an object of this class exists, the bridge leaves something out, which the test must
// notice.
class Blind
{
public:
	explicit Blind(int what) { sn_gc_blind = what; }
	~Blind() { sn_gc_blind = 0; }
	Blind(const Blind &) = delete;
	Blind &operator=(const Blind &) = delete;
};

// Calls fn(arg) with the reference in a callee-saved register and nowhere else.
#if defined(__x86_64__)
extern "C" Hidden test_hold(Hidden reference, void (*fn)(void *), void *arg);
__asm__(".pushsection .text\n"
	".type test_hold, @function\n"
	"test_hold:\n"
	"	pushq %r12\n"
	"	movq %rdi, %r12\n"
	"	notq %r12\n"
	"	xorl %edi, %edi\n"
	"	movq %rsi, %rax\n"
	"	movq %rdx, %rdi\n"
	"	call *%rax\n"
	"	movq %r12, %rax\n"
	"	notq %rax\n"
	"	popq %r12\n"
	"	ret\n"
	".size test_hold, . - test_hold\n"
	".popsection\n");
#else
// On other machines the reference is on the stack.
[[gnu::noinline]] inline Hidden test_hold(Hidden reference, void (*fn)(void *), void *arg)
{
	void *volatile plain = reinterpret_cast<void *>(~reference);

	fn(arg);
	return hide(plain);
}
#endif

template <class F>
Hidden hold(Hidden reference, F body)
{
	return test_hold(
		reference, [](void *arg) { (*static_cast<F *>(arg))(); }, &body);
}

} // namespace test

#endif
