"""Expected counts of a chain: how often each label and each pair of labels is expected, by forward-backward."""

from __future__ import annotations

import math

import numpy as np

from kinfolk.core.kernels import njit
from kinfolk.inference.lattice import forward_scaled, log_backward, log_forward, step_back
from kinfolk.inference.numeric import FAST


@njit(nogil=True, cache=True, fastmath=FAST)
def add_expectations(scores, pair, exp_pair, start, exp_start, scale, residual, pair_residual, start_residual, work):
    """Add scale · p(k at t) to residual, scale · p(i, k at t) to pair_residual; return log Z."""
    table, rows, outer = work
    alpha, local = table[0], table[1]
    beta, message = rows[0], rows[1]
    m, n_labels = scores.shape
    log_z = forward_scaled(scores, np.int64(0), m, exp_pair, exp_start, np.ones(n_labels), alpha, local)
    if math.isnan(log_z):
        return _add_log_expectations(scores, pair, start, scale, residual, pair_residual, start_residual)
    for k in range(n_labels):
        beta[k] = 1.0
    for t in range(m - 1, -1, -1):
        for k in range(n_labels):
            if alpha[t, k] == 0:  # out of reach, so beta is of no use and free to overflow
                beta[k] = 0.0
            residual[t, k] += scale * alpha[t, k] * beta[k]
            message[k] = local[t, k] * beta[k]
        if t == 0:
            for k in range(n_labels):
                start_residual[k] += scale * exp_start[k] * message[k]
        elif len(pair) == 1:  # p(i, k) = alpha_i · exp_pair_ik · message_k: the factor exp_pair waits for the end
            for i in range(n_labels):
                weight = scale * alpha[t - 1, i]
                for k in range(n_labels):
                    outer[i, k] += weight * message[k]
            step_back(exp_pair[0], message, beta)
        else:
            for i in range(n_labels):
                weight = scale * alpha[t - 1, i]
                for k in range(n_labels):
                    pair_residual[t, i, k] += weight * exp_pair[t, i, k] * message[k]
            step_back(exp_pair[t], message, beta)
    return log_z


@njit(nogil=True, cache=True)
def _add_log_expectations(scores, pair, start, scale, residual, pair_residual, start_residual):
    """The slow twin, for scores beyond the scaled recursion."""
    m, n_labels = scores.shape
    zeros = np.zeros(n_labels)
    alpha, beta = np.empty((m, n_labels)), np.empty((m, n_labels))
    log_z = log_forward(scores, np.int64(0), m, pair, start, zeros, alpha)
    log_backward(scores, np.int64(0), m, pair, zeros, beta)
    for t in range(m):
        at = t if len(pair) > 1 else 0
        for k in range(n_labels):
            p = math.exp(alpha[t, k] + beta[t, k] - log_z)
            residual[t, k] += scale * p
            if t == 0:
                start_residual[k] += scale * p
                continue
            for i in range(n_labels):
                joint = math.exp(alpha[t - 1, i] + pair[at, i, k] + scores[t, k] + beta[t, k] - log_z)
                pair_residual[at, i, k] += scale * joint
    return log_z
