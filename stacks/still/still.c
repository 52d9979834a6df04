/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/still/still.h"
