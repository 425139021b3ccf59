"""Nodes in graphs: graphs, where they come from, models of nodes, their explanations and commands."""

from kinfolk.collective.relations import Relation as Relation
from kinfolk.collective.templates import Concat as Concat
from kinfolk.collective.templates import Count as Count
from kinfolk.collective.templates import Exists as Exists
from kinfolk.collective.templates import LogCount as LogCount
from kinfolk.collective.templates import Max as Max
from kinfolk.collective.templates import Mean as Mean
from kinfolk.collective.templates import NeighbourFunction as NeighbourFunction
from kinfolk.collective.templates import Proportion as Proportion
from kinfolk.graph.asked import masks as masks
from kinfolk.graph.degrees import with_degrees as with_degrees
from kinfolk.graph.dependency import DependencyNetwork as DependencyNetwork
from kinfolk.graph.diffusion import choose_alpha as choose_alpha
from kinfolk.graph.diffusion import diffused as diffused
from kinfolk.graph.files import read_tables as read_tables
from kinfolk.graph.graph import Graph as Graph
from kinfolk.graph.layer import NodeLayer as NodeLayer
from kinfolk.graph.link_model import LinkModel as LinkModel
from kinfolk.graph.mixture import MixtureNodes as MixtureNodes
from kinfolk.graph.model import NodeScores as NodeScores
from kinfolk.graph.multi_label import MultiLabelNodes as MultiLabelNodes
from kinfolk.graph.regressor import NodeRegressor as NodeRegressor
from kinfolk.graph.split import GraphSplit as GraphSplit
from kinfolk.graph.stacked import StackedNodes as StackedNodes
