/* SPDX-License-Identifier: Apache-2.0
 *
 * The manifest: writers and readers, order, cycles and information flow.
 */
#include "test_manifest.h"

/* ---- the graph ---- */
UNIT_TEST(writers_and_readers_are_checked)
{
	EXPECT(MANIFEST(IN("a", "") "," OUT("b", ""), OP("X", A_TO_B ",'output2':'a'", "")),
	       "/operations/0/arguments/output2", "'a' is INPUT and may not be written");
	EXPECT(MANIFEST(IN("a", "") "," OUT("b", ""), OP("X", A_TO_B, "") "," OP("Y", A_TO_B, "")),
	       "/operations/1/arguments/output", "is written by operation 'X' already");
	EXPECT(MANIFEST(IN("a", "") "," OUT("b", "") "," IN("c", ""), OP("X", A_TO_B, "")),
	       "/segments/2", "'c' is no operation's argument");
	EXPECT(MANIFEST(IN("a", "") "," OUT("b", "") "," SEGMENT("t", "LOW", "INTERMEDIATE", ""),
			OP("X", A_TO_B ",'output2':'t'", "")),
	       "/segments/2/direction", "no operation reads the INTERMEDIATE");
	EXPECT(MANIFEST(IN("a", "") "," OUT("b", "") "," OUT("c", ""),
			OP("X", A_TO_B ",'c':'c'", "")),
	       "/segments/2/direction", "no operation writes the OUTPUT");
	ACCEPT(MANIFEST(IN("a", "") "," OUT("b", "") "," OUT("c", ""),
			OP("X", A_TO_B, "") "," OP("Y", "'input':'b','output':'c'", "")));
}

UNIT_TEST(dependencies_make_edges)
{
	/* b's writer waits for Y; a's readers wait for Z (a has no writer); depending on an input
	 * makes no edge. */
	static const char text[] = MANIFEST(
		IN("a", ",'dependencies':['z']") "," OUT("b", ",'dependencies':['Y','i']") "," IN(
			"i", "") "," OUT("y", "") "," OUT("z", ""),
		OP("X", A_TO_B, "") "," OP("Y", "'input':'i','output':'y'", "") "," OP(
			"Z", "'input':'i','output':'z'", ",'dependencies':['y','Y','i']"));
	struct parsed p;

	parse(&p, text, 0);
	REQUIRE(p.manifest && p.diagnostics.count == 0 && p.manifest->order);
	CHECK(p.manifest->operations[0].before_count == 2);
	CHECK(p.manifest->operations[0].before[0] == 1 && p.manifest->operations[0].before[1] == 2);
	CHECK(p.manifest->operations[1].before_count == 0);
	CHECK(p.manifest->operations[2].before_count == 1 &&
	      p.manifest->operations[2].before[0] == 1);
	CHECK(p.manifest->order[0] == 1 && p.manifest->order[1] == 2 && p.manifest->order[2] == 0);
	done(&p);
}

UNIT_TEST(cycles_are_printed)
{
	struct parsed p;

	EXPECT(MANIFEST(OUT("x", "") "," OUT("y", "") "," OUT("z", ""),
			LINK("C", "y", "z", "") "," LINK("A", "z", "x", "") "," LINK("B", "x", "y",
										     "")),
	       "/operations/0", "cycle: C -> A -> B -> C");
	EXPECT(MANIFEST(OUT("x", "") "," IN("i", ""), LINK("A", "i", "x", ",'dependencies':['A']")),
	       "/operations/0", "cycle: A -> A");
	EXPECT(MANIFEST(OUT("x", ""), LINK("A", "x", "x", "")), "/operations/0", "cycle: A -> A");
	EXPECT(MANIFEST(OUT("x", "") "," OUT("y", "") "," IN("i", ""),
			LINK("A", "i", "x", ",'dependencies':['B']") "," LINK("B", "x", "y", "")),
	       "/operations/0", "cycle: A -> B -> A");
	/* Two cycles apart are two diagnostics. */
	parse(&p,
	      MANIFEST(OUT("x", "") "," OUT("y", ""),
		       LINK("A", "x", "x", "") "," LINK("B", "y", "y", "")),
	      0);
	CHECK(p.diagnostics.count == 2 && p.manifest && !p.manifest->order);
	CHECK(find(&p, "/operations/1", "B -> B") != NULL);
	done(&p);
}

/* ---- information flow ---- */
UNIT_TEST(high_data_do_not_leave_as_low)
{
#define FLOW(level, more)                                                                       \
	MANIFEST(SEGMENT("patient_scan", "HIGH", "INPUT",                                       \
			 "") "," SEGMENT("smoothed", "HIGH", "INTERMEDIATE",                    \
					 "") "," SEGMENT("histogram", level, "OUTPUT", ""),     \
		 LINK("HIST", "smoothed", "histogram", more) "," LINK("SMOOTH", "patient_scan", \
								      "smoothed", ""))
	struct parsed p;

	EXPECT(FLOW("LOW", ""), "/segments/2/sensitivity_level",
	       "patient_scan -> SMOOTH -> smoothed -> HIST -> histogram");
	ACCEPT(FLOW("LOW", ",'declassify':true"));
	EXPECT(FLOW("LOW", ",'declassify':false"), "/segments/2/sensitivity_level",
	       "HIGH data flow into the LOW output");
	parse(&p, FLOW("HIGH", ""), 0);
	REQUIRE(p.manifest && p.diagnostics.count == 0);
	CHECK(p.manifest->segments[2].high_flow);
	done(&p);
	parse(&p, FLOW("HIGH", ",'declassify':true"), 0);
	REQUIRE(p.manifest && p.diagnostics.count == 0);
	CHECK(p.manifest->segments[2].high_flow); /* declared so */
	done(&p);
}

UNIT_TEST(an_intermediate_that_carries_high_data_says_so)
{
	struct parsed p;

	EXPECT(MANIFEST(SEGMENT("a", "HIGH", "INPUT", "") "," SEGMENT("t", "LOW", "INTERMEDIATE",
								      "") "," SEGMENT("b", "HIGH",
										      "OUTPUT", ""),
			LINK("X", "a", "t", "") "," LINK("Y", "t", "b", "")),
	       "/segments/1/sensitivity_level",
	       "HIGH data flow into the LOW segment 't': a -> X -> t");
	/* One declared HIGH is a source itself, whatever it was made from. */
	EXPECT(MANIFEST(IN("a", "") "," SEGMENT("t", "HIGH", "INTERMEDIATE", "") "," OUT("b", ""),
			LINK("X", "a", "t", "") "," LINK("Y", "t", "b", "")),
	       "/segments/2/sensitivity_level", "'b': t -> Y -> b");
	parse(&p, MANIFEST(IN("a", "") "," OUT("b", ""), LINK("X", "a", "b", "")), 0);
	CHECK(p.diagnostics.count == 0 && p.manifest && !p.manifest->segments[1].high_flow);
	done(&p);
}

UNIT_TEST(order_alone_carries_no_data)
{
	ACCEPT(MANIFEST(
		SEGMENT("a", "HIGH", "INPUT", "") "," SEGMENT("b", "HIGH", "OUTPUT", "") "," IN(
			"c", "") "," OUT("d", ",'dependencies':['b']"),
		LINK("X", "a", "b", "") "," LINK("Y", "c", "d", "")));
}

UNIT_TEST(the_two_values_of_an_input_output_flow_apart)
{
	/* s arrives LOW and leaves with HIGH data: a leak at s, none at b, which reads what
	 * arrived. */
	EXPECT(MANIFEST(SEGMENT("s", "LOW", "INPUT_OUTPUT", "") "," SEGMENT("h", "HIGH", "INPUT",
									    "") "," OUT("b", ""),
			LINK("W", "h", "s", "") "," LINK("R", "s", "b", "")),
	       "/segments/0/sensitivity_level", "h -> W -> s");
	EXPECT(MANIFEST(SEGMENT("s", "HIGH", "INPUT_OUTPUT", "") "," OUT("b", ""),
			LINK("W", "s", "s", "") "," LINK("R", "s", "b", "")),
	       "/segments/1/sensitivity_level", "s -> R -> b");
}

int main(void)
{
	UNIT_RUN(writers_and_readers_are_checked);
	UNIT_RUN(dependencies_make_edges);
	UNIT_RUN(cycles_are_printed);
	UNIT_RUN(high_data_do_not_leave_as_low);
	UNIT_RUN(an_intermediate_that_carries_high_data_says_so);
	UNIT_RUN(order_alone_carries_no_data);
	UNIT_RUN(the_two_values_of_an_input_output_flow_apart);
	return unit_done();
}
