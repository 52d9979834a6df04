# SPDX-License-Identifier: Apache-2.0
"""Jobs that a framework drives: Lightning, and the Trainer of transformers. Only where these are installed."""
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader

import shapes


class Framework(shapes.Job):
    """The framework has the loop: its callbacks begin and end the steps of the clock."""

    def make(self):
        self.model = shapes.fill_card(shapes.Body(self.options, self.faults), self.options, self.device)
        self.optimizer = shapes.optimizer_of(self.model.parameters(), self.faults, self.device)

    def after_step(self, clock):
        """True: go on."""
        self.steps += 1
        self.klass = "step"
        self.now_and_then()
        clock.end(self.klass)
        if not clock.begin():
            return False
        self.faults.at("outside")
        return True

    def evaluate(self):
        """The framework has its own."""


class Lightning(Framework):
    def loop(self, clock):
        try:
            import lightning as framework
        except ImportError:
            import pytorch_lightning as framework
        job = self

        class Module(framework.LightningModule):
            def __init__(self):
                super().__init__()
                self.body = job.model

            def training_step(self, batch, _index):
                loss = job.loss(self.body(batch[0]), batch[1])
                job.faults.at("between")
                return loss

            def configure_optimizers(self):
                return shapes.optimizer_of(self.body.parameters(), job.faults, job.device)

        class Steps(framework.Callback):
            def on_train_batch_end(self, trainer, *_args, **_more):
                job.optimizer = trainer.optimizers[0]
                if not job.after_step(clock):
                    trainer.should_stop = True

        os.environ.setdefault("NODE_RANK", "0")
        trainer = framework.Trainer(accelerator="gpu" if self.device.type == "cuda" else "cpu", devices=self.world, strategy="ddp", max_steps=-1,
                                    max_epochs=-1, min_steps=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                    enable_model_summary=False, use_distributed_sampler=False, callbacks=[Steps()], default_root_dir=tempfile.mkdtemp())
        clock.begin()
        trainer.fit(Module(), self.loader)


class Labelled(nn.Module):
    """As transformers wants a model: labels in, loss out."""

    def __init__(self, job):
        super().__init__()
        self.body, self.job = job.model, [job]

    def forward(self, x, labels):
        out = self.body(x)
        return {"loss": self.job[0].loss(out, labels), "logits": out}


class Dicts(shapes.Samples):
    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return {"x": x, "labels": y}


class Trainer(Framework):
    def loop(self, clock):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import transformers
        job = self

        class Steps(transformers.TrainerCallback):
            def on_step_end(self, _args, _state, control, **_more):
                if not job.after_step(clock):
                    control.should_training_stop = True
                return control

        class Loop(transformers.Trainer):
            def get_train_dataloader(self):
                return DataLoader(Dicts(job.options, job.faults), batch_size=None, pin_memory=job.device.type == "cuda")

        cpu = {} if self.device.type == "cuda" else {"use_cpu": True, "ddp_backend": "gloo"}
        settings = transformers.TrainingArguments(output_dir=tempfile.mkdtemp(), max_steps=10**8, logging_steps=10, save_strategy="no", report_to=[],
                                                  disable_tqdm=True, max_grad_norm=1.0, **cpu)
        trainer = Loop(model=Labelled(self), args=settings, callbacks=[Steps()], optimizers=(self.optimizer, torch.optim.lr_scheduler.ConstantLR(self.optimizer)))
        clock.begin()
        trainer.train()


JOBS = {"lightning": Lightning, "trainer": Trainer}
