/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole library. Each part's header says what it promises; a part uses only those above it in
 * this list.
 */
#ifndef SGPU_SGPU_H
#define SGPU_SGPU_H

#include <sgpu/version.h>
#include <sgpu/error.h>
#include <sgpu/base.h>
#include <sgpu/secret.h>
#include <sgpu/io.h>
#include <sgpu/sniff.h>
#include <sgpu/json.h>
#include <sgpu/manifest.h>
#include <sgpu/crypto.h>
#include <sgpu/entropy.h>
#include <sgpu/seal.h>
#include <sgpu/batch.h>
#include <sgpu/device.h>
#include <sgpu/ops.h>
#include <sgpu/stage.h>
#include <sgpu/ring.h>
#include <sgpu/replay.h>
#include <sgpu/run.h>
#include <sgpu/remote.h>
#include <sgpu/attest.h>

#endif
