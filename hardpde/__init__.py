"""hardpde: PDEs solved by neural networks whose conditions hold by construction."""

import jax

jax.config.update("jax_enable_x64", True)
