/* SPDX-License-Identifier: Apache-2.0
 *
 * scale: gain and bias from parameters or from the calibration, every input type.
 */
#include "ops_harness.h"
#include "unit.h"

enum { COUNT = 70003 };

UNIT_TEST(parameters_calibrate_every_type)
{
	static const enum sgpu_dtype types[][2] = { { SGPU_F64, SGPU_F64 },
						    { SGPU_I16, SGPU_F32 } };

	for (int t = 0; t < 2; t++) {
		void *in =
			ops_values(types[t][0], COUNT, t ? INT16_MIN : -1e6, t ? INT16_MAX : 1e6);
		struct ops_case c;
		int wrong = 0;

		ops_begin(&c, "scale");
		ops_number(&c, "gain", 0.1);
		ops_number(&c, "bias", -7.25);
		ops_input(&c, "input", types[t][0], 1, OPS_SHAPE(COUNT), in);
		CHECK(ops_run(&c) && ops_type_is(&c, "output", types[t][1], 1, OPS_SHAPE(COUNT)));
		for (uint64_t i = 0; i < COUNT; i++) {
			/* Rounded before the sum: nothing is fused. */
			volatile double product = ops_get(types[t][0], in, i) * 0.1;
			double want = product - 7.25;

			wrong += ops_get(types[t][1], ops_data(&c, "output"), i) !=
				 (t ? (double)(float)want : want);
		}
		CHECK(wrong == 0);
		ops_end(&c);
		free(in);
	}
}

UNIT_TEST(the_calibration_argument_takes_their_place)
{
	static const float calibration[] = { 2.5f, -1 };
	static const uint8_t input[] = { 0, 1, 255 };
	struct ops_case c;
	const float *out;

	ops_begin(&c, "scale");
	ops_input(&c, "input", SGPU_U8, 2, OPS_SHAPE(3, 1), input);
	ops_input(&c, "calibration", SGPU_F32, 1, OPS_SHAPE(2), calibration);
	CHECK(ops_run(&c));
	out = ops_data(&c, "output");
	CHECK(out[0] == -1.0f && out[1] == 1.5f && out[2] == 636.5f);
	ops_end(&c);
	CHECK(ops_refuses("scale input=u8[3] calibration=f32[2] bias=0", "bias", ""));
	CHECK(ops_refuses("scale input=u8[3] calibration=f32[1]", "calibration", ""));
}

UNIT_TEST(without_parameters_only_the_type_changes)
{
	static const int32_t input[] = { INT32_MIN, -1, 0, 16777217, INT32_MAX };
	static const uint16_t half[] = { 0x7c00, 0xfc00, 0x7e00, 0x0001 };
	struct ops_case c;
	const float *out;

	ops_begin(&c, "scale");
	ops_input(&c, "input", SGPU_I32, 1, OPS_SHAPE(5), input);
	CHECK(ops_run(&c));
	out = ops_data(&c, "output");
	for (int i = 0; i < 5; i++) {
		CHECK(out[i] == (float)input[i]);
	}
	ops_end(&c);
	ops_begin(&c, "scale");
	ops_input(&c, "input", SGPU_F16, 1, OPS_SHAPE(4), half);
	CHECK(ops_run(&c));
	out = ops_data(&c, "output");
	CHECK(isinf(out[0]) && out[1] < 0 && isinf(out[1]) && isnan(out[2]) && out[3] == 0x1p-24f);
	ops_end(&c);
	ops_call(&c, "scale input=f32[0,9]");
	CHECK(ops_run(&c) && ops_type_is(&c, "output", SGPU_F32, 2, OPS_SHAPE(0, 9)));
	ops_end(&c);
}

int main(void)
{
	UNIT_RUN(parameters_calibrate_every_type);
	UNIT_RUN(the_calibration_argument_takes_their_place);
	UNIT_RUN(without_parameters_only_the_type_changes);
	return unit_done();
}
